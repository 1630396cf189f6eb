// Fair sharing between clients: the virtual token counter (Sheng et al., "Fairness in Serving Large Language
// Models", arXiv 2401.00588). Owned by Scheduler; engine thread only.
//
// Every client has a weighted counter of the tokens that were computed for it. Among the waiting clients, the
// one with the lowest counter is next. A client that returns after a pause starts at the lowest counter of
// the waiting clients, so pauses earn no credit.
//
// Memory: the record of a client without requests is removed once its counter is not above those of all
// waiting clients: a returning client would start at least there, so nothing is lost. Beyond kMaxIdle such
// records, the one with the lowest counter is removed.
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
  int64_t num_requests = 0;  // that have not ended
  GroupSet waiting;          // those never admitted, in order of arrival
  boost::intrusive::set_member_hook<> hook;  // in ClientTable::waiting_ or idle_
};

class ClientTable {
 public:
  static constexpr int64_t kInputWeight = 1;
  static constexpr int64_t kOutputWeight = 2;
  static constexpr size_t kMaxIdle = 65536;

  ~ClientTable();

  // A request arrives or ends.
  void enter(SequenceGroup& group, int64_t client);
  void leave(SequenceGroup& group);

  // Adds a request that waits for its first admission, or removes it.
  void push(SequenceGroup& group);
  void remove(SequenceGroup& group);

  bool empty() const { return waiting_.empty(); }
  // The first request of the waiting client with the lowest counter, or null. O(log clients), amortized over
  // charges.
  SequenceGroup* front();

  static void charge(const SequenceGroup& group, int64_t weighted_tokens) {
    group.client->counter += weighted_tokens;
  }

  // The counter at which a returning client starts, if its own is lower.
  int64_t floor();
  size_t num_clients() const { return clients_.size(); }

  // Throws Error if sets and counts are inconsistent.
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
  void remove_idle();

  std::unordered_map<int64_t, Client> clients_;
  // Counters only grow, so a key is at most the counter: a client at the front with an old key is moved to
  // the place of its counter.
  ClientSet waiting_;
  ClientSet idle_;               // without requests
  Client* last_left_ = nullptr;  // the last client that stopped waiting
  int64_t floor_ = 0;            // largest counter of a removed record
};

}  // namespace quire
