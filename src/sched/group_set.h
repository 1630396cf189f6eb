// Requests in the order of their ranks: an intrusive tree. O(log n) for each operation, no allocation. A
// request's rank may only change while it stands in no set.
#pragma once

#include <boost/intrusive/set.hpp>

#include "sched/request.h"

namespace quire {

struct ByRank {
  bool operator()(const SequenceGroup& a, const SequenceGroup& b) const { return a.rank < b.rank; }
};

using GroupSet =
    boost::intrusive::set<SequenceGroup,
                          boost::intrusive::member_hook<SequenceGroup, boost::intrusive::set_member_hook<>,
                                                        &SequenceGroup::queue_hook>,
                          boost::intrusive::compare<ByRank>>;

}  // namespace quire
