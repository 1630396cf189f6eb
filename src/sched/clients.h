// Fair sharing between clients: the virtual token counter (Sheng et al., "Fairness in Serving Large Language
// Models", arXiv 2401.00588). Owned by Scheduler; engine thread only.
//
// Every client has a counter of the tokens it was served, weighted. Among the clients that wait, the one with
// the lowest counter is served next. A client that comes back is lifted to the lowest counter of those who
// wait, so that having been away earns nothing.
//
// Memory: a client without a request is forgotten as soon as its counter is not above that of everyone who
// waits (coming back it would be lifted at least there, so nothing is lost), and beyond kMaxIdle of them the
// one with the lowest counter is.
#pragma once

#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <unordered_map>

#include "sched/group_set.h"

namespace quire {

struct Client {
  int64_t id = 0;
  int64_t counter = 0;       // tokens served, weighted
  int64_t key = 0;           // the counter when it was put into its set, which orders it there
  int64_t num_requests = 0;  // that did not end
  GroupSet waiting;          // those never admitted, first come first served
  boost::intrusive::set_member_hook<> hook;  // in ClientTable::waiting_ or idle_
};

class ClientTable {
 public:
  static constexpr int64_t kInputWeight = 1;
  static constexpr int64_t kOutputWeight = 2;
  static constexpr size_t kMaxIdle = 65536;

  ~ClientTable();

  // A request comes, a request is gone.
  void enter(SequenceGroup& group, int64_t client);
  void leave(SequenceGroup& group);

  // A request waits for its first admission, or no longer.
  void push(SequenceGroup& group);
  void remove(SequenceGroup& group);

  bool empty() const { return waiting_.empty(); }
  // The first request of the waiting client with the lowest counter. O(log clients), amortised over charges.
  SequenceGroup* front();

  static void charge(const SequenceGroup& group, int64_t weighted_tokens) {
    group.client->counter += weighted_tokens;
  }

  // What a client that comes back is lifted to.
  int64_t floor();
  size_t num_clients() const { return clients_.size(); }

  // Throws Error where sets and counts disagree.
  void check_integrity() const;

 private:
  struct ByKey {
    bool operator()(const Client& a, const Client& b) const {
      return a.key != b.key ? a.key < b.key : a.id < b.id;
    }
  };
  using ClientSet = boost::intrusive::set<
      Client, boost::intrusive::member_hook<Client, boost::intrusive::set_member_hook<>, &Client::hook>,
      boost::intrusive::compare<ByKey>>;

  static void insert(ClientSet& set, Client& client);
  Client* lowest();
  void forget_idle();

  std::unordered_map<int64_t, Client> clients_;
  // Counters only grow, so a key is at most the counter: whoever stands in front with an old key is put where
  // its counter belongs.
  ClientSet waiting_;
  ClientSet idle_;               // without requests
  Client* last_left_ = nullptr;  // the last that stopped to wait
  int64_t floor_ = 0;            // of those forgotten
};

}  // namespace quire
