#include "sched/clients.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

ClientTable::~ClientTable() {
  waiting_.clear();
  idle_.clear();
  for (auto& [id, client] : clients_) client.waiting.clear();
}

void ClientTable::insert(ClientSet& set, Client& client) {
  client.key = client.counter;
  set.insert(client);
}

void ClientTable::enter(SequenceGroup& group, int64_t id) {
  Client& client = clients_[id];
  client.id = id;
  if (client.num_requests++ == 0 && client.hook.is_linked()) idle_.erase(idle_.iterator_to(client));
  group.client = &client;
}

void ClientTable::leave(SequenceGroup& group) {
  Client& client = *group.client;
  group.client = nullptr;
  if (--client.num_requests > 0) return;
  insert(idle_, client);
  remove_idle();
}

void ClientTable::push(SequenceGroup& group) {
  Client& client = *group.client;
  if (client.waiting.empty()) {
    client.counter = std::max(client.counter, floor());
    insert(waiting_, client);
  }
  client.waiting.insert(group);
}

void ClientTable::remove(SequenceGroup& group) {
  Client& client = *group.client;
  client.waiting.erase(client.waiting.iterator_to(group));
  if (!client.waiting.empty()) return;
  waiting_.erase(waiting_.iterator_to(client));
  last_left_ = &client;
}

Client* ClientTable::lowest() {
  while (!waiting_.empty()) {
    Client& first = *waiting_.begin();
    if (first.key == first.counter) return &first;
    waiting_.erase(waiting_.begin());
    insert(waiting_, first);
  }
  return nullptr;
}

SequenceGroup* ClientTable::front() {
  Client* client = lowest();
  return client == nullptr ? nullptr : &*client->waiting.begin();
}

int64_t ClientTable::floor() {
  if (const Client* client = lowest(); client != nullptr) return client->counter;
  return last_left_ == nullptr ? floor_ : std::max(floor_, last_left_->counter);
}

void ClientTable::remove_idle() {
  const int64_t lowest_start = floor();
  while (!idle_.empty()) {
    Client& client = *idle_.begin();
    if (client.counter > lowest_start && idle_.size() <= kMaxIdle) break;
    idle_.erase(idle_.begin());
    if (last_left_ == &client) {
      floor_ = std::max(floor_, client.counter);
      last_left_ = nullptr;
    }
    clients_.erase(client.id);
  }
}

void ClientTable::check_integrity() const {
  size_t waiting = 0;
  size_t idle = 0;
  for (const auto& [id, client] : clients_) {
    const bool waits = !client.waiting.empty();
    if (waits) ++waiting;
    if (client.num_requests == 0) ++idle;
    if (client.hook.is_linked() != (waits || client.num_requests == 0) ||
        (waits && client.num_requests == 0) || client.key > client.counter) {
      throw Error(cat("client ", id, ": in the wrong set; ", client.num_requests, " requests, ",
                      client.waiting.size(), " of them waiting"));
    }
  }
  if (waiting != waiting_.size() || idle != idle_.size()) {
    throw Error(cat(waiting, " clients wait and ", idle, " have no requests; the sets have ", waiting_.size(),
                    " and ", idle_.size()));
  }
}

}  // namespace quire
