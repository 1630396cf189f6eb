#include "nn/adapter.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/strings.h"

namespace quire {
namespace {

void add(Fingerprint& print, const EmbeddingChange& change) {
  print.add(dtype_name(change.dtype));
  for (const int64_t number : {change.vocab_size, change.size, change.rank}) print.add(number);
  print.add(std::as_bytes(std::span(&change.scale, 1)));
  for (const Buffer* buffer : {&change.a, &change.b}) print.add(std::span(buffer->data(), buffer->size()));
}

void add(Fingerprint& print, const ReplacedMatrix& matrix) {
  print.add(matrix.content);
}

void add(Fingerprint& print, const ReplacedNorm& norm) {
  for (const Buffer* buffer : {&norm.weight, &norm.bias}) {
    print.add(static_cast<int64_t>(buffer->size()));
    print.add(std::span(buffer->data(), buffer->size()));
  }
}

void add(Fingerprint& print, const TrainedTokens& tokens) {
  print.add(dtype_name(tokens.dtype));
  print.add(tokens.size);
  print.add(std::as_bytes(std::span(tokens.ids)));
  print.add(std::span(tokens.values.data(), tokens.values.size()));
}

// The entries of a map from sites. Nothing if it is empty.
template <typename Map>
void add_all(Fingerprint& print, std::string_view part, const Map& by_site) {
  for (const auto& [site, entry] : by_site) {
    print.add(part);
    print.add(static_cast<int64_t>(site));
    add(print, *entry);
  }
}

// The rows of `use` that the call computes.
std::span<const int32_t> rows_in(const AdapterUse& use, const AdapterRows& rows) {
  const auto begin = std::ranges::lower_bound(use.rows, rows.first_row);
  const auto end = std::ranges::lower_bound(use.rows, rows.first_row + rows.num_rows);
  return {begin, end};
}

// A group for each adapter that has a change for some of the rows, in `groups`. change_of: null = none.
template <typename Group, typename ChangeOf>
std::span<const Group> collect(const AdapterRows& rows, int64_t num_rows, std::span<Group> groups,
                               const ChangeOf& change_of) {
  check_rows(rows, num_rows);
  size_t count = 0;
  for (const AdapterUse& use : rows.uses) {
    const auto* change = change_of(*use.adapter);
    if (change == nullptr) continue;
    const std::span<const int32_t> own = rows_in(use, rows);
    if (!own.empty()) groups[count++] = {change, own};
  }
  return groups.first(count);
}

}  // namespace

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
  add_all(print, "embedding", adapter.embeddings);
  add_all(print, "matrix", adapter.matrices);
  add_all(print, "table", adapter.tables);
  add_all(print, "input tokens", adapter.input_tokens);
  add_all(print, "output tokens", adapter.output_tokens);
  add_all(print, "norm", adapter.norms);
  return print.text();
}

void check_rows(const AdapterRows& rows, int64_t num_rows) {
  if (num_rows != rows.num_rows) {
    throw Error(cat("internal error: a layer computes ", num_rows, " rows with the adapters of ",
                    rows.num_rows, " rows"));
  }
}

std::span<const LowRankGroup> groups_at(const AdapterRows& rows, int32_t site, int64_t num_rows) {
  return collect(rows, num_rows, rows.groups,
                 [&](const AdapterWeights& adapter) { return adapter.at(site); });
}

std::span<const LowRankExpertsGroup> groups_at(const AdapterRows& rows, std::span<const int32_t> sites,
                                               int64_t num_rows) {
  check_rows(rows, num_rows);
  size_t count = 0;
  for (const AdapterUse& use : rows.uses) {
    const std::span<const int32_t> own = rows_in(use, rows);
    const auto changed = [&](int32_t site) { return use.adapter->at(site) != nullptr; };
    if (own.empty() || std::ranges::none_of(sites, changed)) continue;
    rows.expert_groups[count++] = {.sites = use.adapter->sites, .rows = own};
  }
  return rows.expert_groups.first(count);
}

std::span<const EmbeddingGroup> embedding_groups_at(const AdapterRows& rows, int32_t site, int64_t num_rows) {
  return collect(rows, num_rows, rows.embedding_groups,
                 [&](const AdapterWeights& adapter) { return at_site(adapter.embeddings, site); });
}

std::span<const TrainedTokensGroup> token_groups_at(const AdapterRows& rows,
                                                    TokensBySite AdapterWeights::*tokens, int32_t site,
                                                    int64_t num_rows) {
  return collect(rows, num_rows, rows.token_groups,
                 [&](const AdapterWeights& adapter) { return at_site(adapter.*tokens, site); });
}

}  // namespace quire
