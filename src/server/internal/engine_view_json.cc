#include "server/internal/engine_view_json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <vector>

#include "server/openai/json_out.h"

namespace quire {
namespace {

constexpr size_t kMaxEnded = 128;

std::string_view phase_name(const RequestView& request) {
  switch (request.phase) {
    case RequestPhase::kQueued:
      return "queued";
    case RequestPhase::kLoading:
      return "loading";
    case RequestPhase::kPrefill:
      return "prefill";
    case RequestPhase::kDecode:
      return "decode";
    default:
      return request.swapped ? "swapped" : "preempted";
  }
}

class ViewWriter {
 public:
  ViewWriter(std::string& body, double now) : out_(body), now_(now) {}

  JsonOut& out() { return out_; }
  void time(std::string_view key, double seconds) {
    out_.key(key);
    seconds == 0.0 ? out_.null() : out_.integer(ms(seconds));
  }
  void progress(const RequestProgress& progress) {
    out_.key("generated").integer(progress.num_generated_tokens);
    time("arrival", progress.times.arrival);
    time("scheduled", progress.times.scheduled);
    time("first", progress.times.first_token);
    time("last", progress.times.last_token);
  }
  void history(const RequestHistory& history) {
    out_.key("chunks").begin_array();
    for (const PrefillChunk& chunk : history.chunks) {
      out_.begin_array()
          .integer(ms(chunk.begin))
          .integer(ms(chunk.end))
          .integer(chunk.num_tokens)
          .end_array();
    }
    out_.end_array().key("pauses").begin_array();
    for (const Pause& pause : history.pauses) {
      out_.begin_array().integer(ms(pause.begin));
      (pause.end == 0.0 ? out_.null() : out_.integer(ms(pause.end))).end_array();
    }
    out_.end_array();
  }

 private:
  int64_t ms(double seconds) const { return std::llround((seconds - now_) * 1000.0); }

  JsonOut out_;
  double now_;
};

void write_live(ViewWriter& writer, const LiveRequest& request) {
  const RequestView& view = request.scheduled;
  JsonOut& out = writer.out();
  out.begin_object().key("id").integer(view.id).key("phase").string(phase_name(view));
  out.key("sequences").integer(view.num_sequences).key("prompt").integer(view.num_prompt_tokens);
  out.key("cached").integer(view.num_cached_tokens).key("computed").integer(view.num_computed_tokens);
  out.key("blocks").integer(view.num_blocks);
  writer.progress(request.progress);
  writer.history(request.history);
  out.end_object();
}

void write_ended(ViewWriter& writer, const EndedRequest& request) {
  JsonOut& out = writer.out();
  out.begin_object().key("id").integer(request.id).key("reason").string(to_string(request.reason));
  out.key("prompt").integer(request.progress.num_prompt_tokens);
  out.key("cached").integer(request.progress.num_cached_tokens);
  writer.progress(request.progress);
  writer.time("end", request.end);
  writer.history(request.history);
  out.end_object();
}

void write_cell(JsonOut& out, const BlockCell& cell) {
  out.integer(cell.owner).integer(cell.max_refs).integer(cell.num_used).integer(cell.num_cached);
  out.integer(cell.filled_slots);
}

bool same(const BlockCell& a, const BlockCell& b) {
  const auto fields = [](const BlockCell& c) {
    return std::tuple(c.owner, c.max_refs, c.num_used, c.num_cached, c.filled_slots);
  };
  return fields(a) == fields(b);
}

void write_cells(JsonOut& out, const std::vector<BlockCell>& cells) {
  out.begin_array();
  for (size_t begin = 0; begin < cells.size();) {
    size_t end = begin + 1;
    while (end < cells.size() && same(cells[end], cells[begin])) ++end;
    out.integer(end - begin);
    write_cell(out, cells[begin]);
    begin = end;
  }
  out.end_array();
}

void write_placed(JsonOut& out, const std::vector<PlacedCell>& placed) {
  out.begin_array();
  for (size_t begin = 0; begin < placed.size();) {
    size_t end = begin + 1;
    while (end < placed.size() && placed[end].index == placed[end - 1].index + 1 &&
           same(placed[end].cell, placed[begin].cell))
      ++end;
    out.integer(placed[begin].index).integer(end - begin);
    write_cell(out, placed[begin].cell);
    begin = end;
  }
  out.end_array();
}

void write_pool(JsonOut& out, const PoolView& pool) {
  out.begin_object().key("num_blocks").integer(pool.num_blocks).key("used").integer(pool.num_used);
  out.key("cached").integer(pool.num_cached).key("shared").integer(pool.num_shared);
  out.key("blocks_per_cell").integer(pool.blocks_per_cell).key("cells");
  write_cells(out, pool.cells);
  out.key("blocks_per_placed").integer(pool.blocks_per_placed).key("placed");
  write_placed(out, pool.placed);
  out.end_object();
}

void write_stats(JsonOut& out, const EngineView& view) {
  const EngineStats& stats = view.stats;
  out.begin_object().key("running").integer(stats.num_running).key("waiting").integer(stats.num_waiting);
  out.key("finished").integer(stats.num_finished).key("preemptions").integer(stats.num_preemptions);
  out.key("steps").integer(stats.num_steps).key("prompt_tokens").integer(stats.prompt_tokens);
  out.key("generation_tokens").integer(stats.generation_tokens);
  out.key("prefix_queries").integer(stats.prefix_cache_queries);
  out.key("prefix_hits").integer(stats.prefix_cache_hits);
  out.key("swapped_out").integer(stats.num_swapped_out_blocks);
  out.key("swapped_in").integer(stats.num_swapped_in_blocks);
  out.key("copied_on_write").integer(view.num_copied_on_write);
  out.key("slots_used").integer(view.slots_used).key("slots_filled").integer(view.slots_filled);
  out.key("disk_blocks").integer(view.num_disk_blocks);
  out.key("cached_disk_blocks").integer(view.num_cached_disk_blocks).end_object();
}

}  // namespace

std::string engine_view_json(const EngineView& view) {
  std::string body;
  ViewWriter writer(body, view.time);
  JsonOut& out = writer.out();
  out.begin_object().key("time").number(view.time).key("stats");
  write_stats(out, view);
  out.key("num_requests").integer(view.num_requests).key("requests").begin_array();
  for (const LiveRequest& request : view.requests) write_live(writer, request);
  out.end_array().key("ended").begin_array();
  for (size_t i = view.ended.size() - std::min(view.ended.size(), kMaxEnded); i < view.ended.size(); ++i)
    write_ended(writer, view.ended[i]);
  out.end_array().key("device");
  write_pool(out, view.device);
  out.key("host");
  write_pool(out, view.host);
  out.end_object();
  return body;
}

}  // namespace quire
