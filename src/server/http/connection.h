// One client's connection (private to http/). All members run on the connection's strand.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "server/http/http_server.h"

namespace quire {

// What all connections of a server share. Outlives them.
struct ConnectionShared {
  HttpServerOptions options;
  HttpApp app;
  std::atomic<int64_t> num_connections{0};
  std::atomic<int64_t> num_exchanges{0};
  std::atomic<int64_t> body_bytes{0};  // held by bodies that are being read
  std::atomic<bool> stopping{false};
  boost::asio::io_context io;
};

class Exchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

  Connection(std::shared_ptr<ConnectionShared> shared, Socket socket);
  ~Connection();

  Strand strand() { return socket_.get_executor(); }
  // Starts serving; the connection lives until its client or the server ends it.
  void start();
  // Ends it: at once when `force` or when it waits for a request, else behind the answer it is at.
  void stop(bool force);

  // For Exchange: `bytes` of the answer, sent as soon as the socket takes them.
  void enqueue(std::string_view bytes);
  void wake();

 private:
  using Clock = std::chrono::steady_clock;

  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> wait_event(Clock::time_point deadline);
  // False when the connection has to end (nothing more is to be read from it).
  boost::asio::awaitable<bool> read_header(HttpRequestParser& parser);
  boost::asio::awaitable<bool> read_body(HttpRequestParser& parser);
  boost::asio::awaitable<bool> answer(HttpRequestParser& parser);
  boost::asio::awaitable<void> finish_exchange(Exchange& exchange);
  // Sends an answer that ends the connection.
  boost::asio::awaitable<void> refuse(HttpRequestParser& parser, HttpResponse response);
  boost::asio::awaitable<void> linger();

  void arm_read();
  void pull();
  void arm_write();
  void flush();
  void probe_hangup();
  void count_body(size_t bytes);
  void close();

  std::shared_ptr<ConnectionShared> shared_;
  Socket socket_;
  boost::asio::steady_timer wake_;
  std::shared_ptr<Exchange> exchange_;
  std::string in_;   // received, not yet consumed
  std::string out_;  // to be sent, from out_begin_ on
  size_t out_begin_ = 0;
  Clock::time_point write_progress_{};
  size_t counted_body_ = 0;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool discard_input_ = false;
  bool eof_ = false;     // the client has closed its side, or the connection broke
  bool broken_ = false;  // nothing can be sent any more
  bool stop_soon_ = false;
  bool forced_ = false;
};

}  // namespace quire
