// Requests in order of their ranks: an intrusive tree. Every operation is O(log n) and allocates nothing. The
// rank of a request must not change while it is in a set.
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
