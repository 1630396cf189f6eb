#include "nn/adapter.h"

#include <algorithm>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/strings.h"

namespace quire {

std::string digest_of(const AdapterWeights& adapter) {
  Fingerprint print;
  for (size_t site = 0; site < adapter.sites.size(); ++site) {
    const LowRank* change = adapter.sites[site].get();
    if (change == nullptr) continue;
    print.add(static_cast<int64_t>(site));
    print.add(dtype_name(change->dtype));
    for (const LowRank::Piece& piece : change->pieces) {
      for (const int64_t number : {piece.out_begin, piece.n, piece.rank}) print.add(number);
      print.add(std::as_bytes(std::span(&piece.scale, 1)));
    }
    for (const Buffer* buffer : {&change->a, &change->b, &change->bias})
      print.add(std::span(buffer->data(), buffer->size()));
  }
  return print.text();
}

std::span<const LowRankGroup> groups_at(const AdapterRows& rows, int32_t site, int64_t num_rows) {
  if (num_rows != rows.num_rows) {
    throw Error(cat("internal error: a layer computes ", num_rows, " rows with the adapters of ",
                    rows.num_rows, " rows"));
  }
  size_t count = 0;
  for (const AdapterUse& use : rows.uses) {
    const LowRank* change = use.adapter->at(site);
    if (change == nullptr) continue;
    const auto begin = std::ranges::lower_bound(use.rows, rows.first_row);
    const auto end = std::ranges::lower_bound(use.rows, rows.first_row + rows.num_rows);
    if (begin != end) rows.groups[count++] = {.change = change, .rows = {begin, end}};
  }
  return rows.groups.first(count);
}

}  // namespace quire
