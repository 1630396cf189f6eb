// One client's connection (private to http/). All members run on the connection's thread.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/pacer.h"
#include "server/http/http_server.h"
#include "server/http/output_queue.h"

namespace quire {

// State shared by all connections of a server. Outlives them.
struct ConnectionShared {
  HttpServerOptions options;
  HttpApp app;
  std::atomic<int64_t> num_connections{0};
  std::atomic<int64_t> num_exchanges{0};
  // Bytes of all bodies that are being read, or were read and are not parsed yet.
  std::atomic<int64_t> body_bytes{0};
  std::atomic<bool> stopping{false};
  // One per HTTP thread. Asio's strands would let the threads share connections, but do not survive a failed
  // allocation: Boost 1.81 crashes if a strand cannot be created, and a strand that could not be scheduled
  // never runs again.
  std::vector<std::unique_ptr<boost::asio::io_context>> ios;
  // Receives large bodies, on a thread of low priority.
  boost::asio::io_context body_io;
  Pacer body_pacer{[this] { return app.busy && app.busy(); }};  // of that thread
};

class BodyCharge;
class Exchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Executor = boost::asio::io_context::executor_type;  // runs on one HTTP thread
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;

  Connection(std::shared_ptr<ConnectionShared> shared, Socket socket);
  ~Connection();

  Executor executor() { return socket_.get_executor(); }
  // Starts serving; the connection lives until the client or the server ends it.
  void start();
  // Ends the connection: at once if `force` or if it waits for a request, otherwise after the current
  // response.
  void stop(bool force);

  // For Exchange: queues bytes of the response and sends what the socket takes.
  void enqueue(std::string bytes);
  // For Exchange: the response cannot be completed; the connection is closed.
  void abandon();
  void wake();

 private:
  using Clock = std::chrono::steady_clock;

  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> wait_event(Clock::time_point deadline);
  // These return false if the connection has to end (nothing more is to be read from it).
  boost::asio::awaitable<bool> read_header(HttpRequestParser& parser);
  boost::asio::awaitable<bool> check_header(HttpRequestParser& parser);
  boost::asio::awaitable<bool> read_body(HttpRequestParser& parser);
  boost::asio::awaitable<bool> respond(HttpRequestParser& parser);
  boost::asio::awaitable<void> finish_exchange(Exchange& exchange);
  // Sends a response that ends the connection.
  boost::asio::awaitable<void> refuse(HttpRequestParser& parser, HttpResponse response);
  boost::asio::awaitable<void> refuse(HttpRequestParser& parser, int status, const std::string& message);
  boost::asio::awaitable<void> linger();
  void end_exchange();

  void arm_read();
  // Reads once. False if nothing was read.
  bool pull();
  // Receives what has arrived, up to a limit, on the thread for large bodies. Without a parser it is
  // discarded.
  boost::asio::awaitable<void> receive_in_background(HttpRequestParser* parser);
  void receive(HttpRequestParser* parser);
  void arm_write();
  void flush();
  void probe_hangup();
  void close();

  std::shared_ptr<ConnectionShared> shared_;
  Socket socket_;
  boost::asio::steady_timer wake_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<BodyCharge> body_charge_;
  std::string in_;  // received, not yet consumed
  OutputQueue out_;
  Clock::time_point request_begin_{};  // first byte of the current request
  Clock::time_point write_progress_{};
  Clock::duration linger_total_;  // how long what the client still sends is read after the last response
  bool read_armed_ = false;
  bool background_ = false;            // input is received by receive_in_background() only
  bool readable_ = false;              // background_: input has arrived
  std::atomic<bool> received_{false};  // receive_in_background() has finished on the other thread,
  std::exception_ptr receive_error_;   // with this error
  bool write_armed_ = false;
  bool discard_input_ = false;
  bool eof_ = false;     // the client has closed its side, or the connection broke
  bool broken_ = false;  // nothing can be sent any more
  bool stop_soon_ = false;
  bool forced_ = false;
};

}  // namespace quire
