// The extension module quire._core. Its functions are used by the Python sources next to it, not by users;
// their types are in quire/_core.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "base/log.h"
#include "base/strings.h"
#include "convert.h"
#include "core.h"
#include "engine/build_info.h"
#include "engine/chat_context.h"
#include "engine/text_pairs.h"
#include "gil.h"
#include "models_by_name.h"

namespace quire::python {
namespace {

// quire._core.Outbox. A member, because the last owner of the outbox may be a sink on the engine thread,
// which must not destroy a Python object.
struct PyOutbox {
  std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();
};

// Elements are (dimensions, normalize | None, activation).
std::vector<PoolingParams> to_pooling_params(nb::handle list) {
  std::vector<PoolingParams> params;
  for (const nb::handle item : list) {
    const auto fields = nb::cast<nb::tuple>(item);
    PoolingParams one;
    one.dimensions = nb::cast<int32_t>(fields[0]);
    one.normalize = nb::cast<std::optional<bool>>(fields[1]);
    one.activation = nb::cast<bool>(fields[2]);
    params.push_back(one);
  }
  return params;
}

ContentFormat to_content_format(const std::string& name) {
  if (name == "auto") return ContentFormat::kAuto;
  if (name == "string") return ContentFormat::kString;
  if (name == "openai") return ContentFormat::kOpenAi;
  throw RequestError(ErrorKind::kInvalidArgument,
                     cat("chat_template_content_format must be auto, string or openai, not ", name));
}

// quire._core.Engine
class PyEngine {
 public:
  PyEngine(const nb::dict& fields, const nb::object& progress)
      : handle_(std::make_shared<EngineHandle>(start(to_options(fields), progress))) {}
  // Waits for the engine thread, which may be in the middle of a step.
  ~PyEngine() {
    const GilRelease released;
    handle_.reset();
  }
  PyEngine(const PyEngine&) = delete;
  PyEngine& operator=(const PyEngine&) = delete;

  void close() {
    const GilRelease released;
    handle_->close();
  }
  std::shared_ptr<Engine> engine() const { return handle_->get(); }

  std::unique_ptr<Batch> submit(nb::handle prompts, nb::handle params, const std::vector<int32_t>& priorities,
                                bool add_special_tokens, int32_t truncate, bool keep_right);
  std::unique_ptr<Batch> submit_pooling(nb::handle prompts, nb::handle params, bool add_special_tokens,
                                        int32_t truncate, bool keep_right);
  std::unique_ptr<Batch> submit_pairs(const std::vector<std::string>& queries,
                                      const std::vector<std::string>& documents, nb::handle params);
  std::unique_ptr<Batch> submit_stream(const PyOutbox& outbox, int64_t key, nb::handle prompt,
                                       const SharedSamplingParams* sampling, const nb::object& pooling,
                                       int32_t priority, bool add_special_tokens, int32_t truncate,
                                       bool keep_right);
  nb::list results(const Batch& batch);
  nb::list pooled(const Batch& batch) const;
  nb::list take(const PyOutbox& outbox);

  std::string render_chat(const std::string& fields, const std::string& content_format,
                          bool keep_media) const;
  const Tokenizer& tokenizer(const Engine& engine) const;
  nb::object token_text(TokenId token) { return texts_.get(engine()->tokenizer(), token); }
  nb::dict info() const;
  nb::dict stats() const;
  // Replaces an adapter of that name.
  void load_lora(const std::string& name, const std::string& path) const {
    const auto held = engine();
    const GilRelease released;
    if (const Status loaded = held->load_adapter({name, path}, true); !loaded.ok())
      throw RequestError(loaded.failure().kind, loaded.failure().message);
  }
  void unload_lora(const std::string& name) const {
    if (const Status unloaded = engine()->unload_adapter(name); !unloaded.ok())
      throw RequestError(unloaded.failure().kind, unloaded.failure().message);
  }
  bool reset_prefix_cache() const {
    const auto held = engine();
    const GilRelease released;
    return held->reset_prefix_cache();
  }

 private:
  static std::shared_ptr<Engine> start(const EngineOptions& options, const nb::object& progress);

  std::shared_ptr<EngineHandle> handle_;
  TokenTexts texts_;
};

std::shared_ptr<Engine> PyEngine::start(const EngineOptions& options, const nb::object& progress) {
  auto last = std::chrono::steady_clock::now();
  // Also lets Ctrl-C interrupt the loading of a large model.
  const auto on_load = [&](int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::milliseconds(50) && done < total) return;
    last = now;
    const nb::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none())
      progress(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0);
  };
  const GilRelease released;
  return Engine::start(options, on_load);
}

std::unique_ptr<Batch> PyEngine::submit(nb::handle prompts, nb::handle params,
                                        const std::vector<int32_t>& priorities, bool add_special_tokens,
                                        int32_t truncate, bool keep_right) {
  handle_->check_process();
  std::vector<SharedSamplingParams> shared;
  for (const nb::handle one : params) shared.push_back(nb::cast<const SharedSamplingParams&>(one));
  std::vector<PromptInput> inputs = to_prompts(prompts);
  auto batch = std::make_unique<Batch>(handle_);
  const GilRelease released;
  batch->submit(std::move(inputs), shared, priorities, {add_special_tokens, truncate, keep_right});
  return batch;
}

std::unique_ptr<Batch> PyEngine::submit_pooling(nb::handle prompts, nb::handle params,
                                                bool add_special_tokens, int32_t truncate, bool keep_right) {
  handle_->check_process();
  const std::vector<PoolingParams> pooling = to_pooling_params(params);
  std::vector<PromptInput> inputs = to_prompts(prompts);
  auto batch = std::make_unique<Batch>(handle_);
  const GilRelease released;
  batch->submit_pooling(std::move(inputs), pooling, {}, {add_special_tokens, truncate, keep_right});
  return batch;
}

// One query for all documents, or one per document.
std::unique_ptr<Batch> PyEngine::submit_pairs(const std::vector<std::string>& queries,
                                              const std::vector<std::string>& documents, nb::handle params) {
  const auto held = engine();
  (void)tokenizer(*held);
  const std::vector<PoolingParams> pooling = to_pooling_params(params);
  auto batch = std::make_unique<Batch>(handle_);
  const GilRelease released;
  std::vector<PromptInput> inputs;
  for (size_t i = 0; i < documents.size(); ++i) {
    auto pair = encode_pair(*held, queries[queries.size() == 1 ? 0 : i], documents[i]);
    if (!pair.ok())
      throw RequestError(pair.failure().kind, cat("document ", i, ": ", pair.failure().message));
    PooledText text = std::move(pair).value();
    PromptInput input;
    input.ids = std::move(text.ids);
    input.has_ids = true;
    input.second_text = text.second_text;
    inputs.push_back(std::move(input));
  }
  batch->submit_pooling(std::move(inputs), pooling, {}, {});
  return batch;
}

// A batch of one request whose outputs go to the outbox.
std::unique_ptr<Batch> PyEngine::submit_stream(const PyOutbox& outbox, int64_t key, nb::handle prompt,
                                               const SharedSamplingParams* sampling,
                                               const nb::object& pooling, int32_t priority,
                                               bool add_special_tokens, int32_t truncate, bool keep_right) {
  handle_->check_process();
  std::vector<PromptInput> inputs;
  inputs.push_back(to_prompt(prompt, 0));
  std::vector<PoolingParams> params;
  if (sampling == nullptr) params = to_pooling_params(nb::object(nb::make_tuple(pooling)));
  const TokenizeOptions options{add_special_tokens, truncate, keep_right};
  const RequestBatch::Sink sink = [outbox = outbox.outbox, key](size_t, RequestOutput&& output) {
    outbox->push(key, std::move(output));
  };
  auto batch = std::make_unique<Batch>(handle_);
  const GilRelease released;
  if (sampling != nullptr) {
    batch->submit(std::move(inputs), {*sampling}, {priority}, options, sink);
  } else {
    batch->submit_pooling(std::move(inputs), params, {priority}, options, sink);
  }
  return batch;
}

// One (prompt_token_ids, prompt_logprobs, outputs, num_cached_tokens, times) per request.
nb::list PyEngine::results(const Batch& batch) {
  const auto held = engine();
  nb::list list;
  for (size_t i = 0; i < batch.size(); ++i) {
    const RequestOutput& output = batch.outputs()[i];
    nb::list outputs;
    for (const CompletionDelta& completion : output.outputs) {
      // A beam search may find fewer hypotheses than n.
      if (completion.finish_reason != FinishReason::kNone)
        outputs.append(to_tuple(completion, held->tokenizer(), texts_));
    }
    list.append(nb::make_tuple(to_list(batch.prompt(i)),
                               to_logprobs(output.prompt_logprobs, held->tokenizer(), texts_), outputs,
                               output.num_cached_tokens, to_tuple(output.times)));
  }
  return list;
}

// One (prompt_token_ids, values, num_cached_tokens) per pooling request.
nb::list PyEngine::pooled(const Batch& batch) const {
  nb::list list;
  for (size_t i = 0; i < batch.size(); ++i) {
    const RequestOutput& output = batch.outputs()[i];
    if (output.pooled.empty())
      throw RequestError(ErrorKind::kInternal, "a request was ended before its result was computed");
    list.append(nb::make_tuple(to_list(batch.prompt(i)), to_array(output.pooled), output.num_cached_tokens));
  }
  return list;
}

// One (key, outputs, prompt_logprobs, pooled | None, num_cached_tokens, finished, failure | None, times) per
// output since the last call, in order.
nb::list PyEngine::take(const PyOutbox& outbox) {
  handle_->check_process();
  nb::list list;
  const std::vector<Outbox::Item> items = outbox.outbox->take();
  if (items.empty()) return list;
  const auto held = engine();
  for (const Outbox::Item& item : items) {
    const RequestOutput& output = item.output;
    nb::list outputs;
    for (const CompletionDelta& delta : output.outputs)
      outputs.append(to_tuple(delta, held->tokenizer(), texts_));
    nb::object pooled = nb::none();
    if (!output.pooled.empty()) pooled = to_array(output.pooled);
    nb::object failure = nb::none();
    if (output.failure) failure = to_str(output.failure->message);
    list.append(nb::make_tuple(item.key, outputs,
                               to_logprobs(output.prompt_logprobs, held->tokenizer(), texts_), pooled,
                               output.num_cached_tokens, output.finished, failure, to_tuple(output.times)));
  }
  return list;
}

const Tokenizer& PyEngine::tokenizer(const Engine& engine) const {
  if (engine.tokenizer() != nullptr) return *engine.tokenizer();
  throw RequestError(ErrorKind::kInvalidArgument, cat(engine.model().name, ": has no tokenizer files"));
}

std::string PyEngine::render_chat(const std::string& fields, const std::string& content_format,
                                  bool keep_media) const {
  const auto held = engine();
  const GilRelease released;
  const auto checked = [](auto result) {
    if (!result.ok()) throw RequestError(result.failure().kind, result.failure().message);
    return std::move(result).value();
  };
  ChatRequest request = checked(read_chat_request(checked(parse_request_json(fields, "the conversation")),
                                                  keep_media ? MediaParts::kKeep : MediaParts::kRefuse));
  request.content_format = to_content_format(content_format);
  if (request.chat_template.empty() && held->chat_templates().empty()) {
    throw RequestError(ErrorKind::kInvalidArgument,
                       cat(held->model().name, ": has no chat template; pass chat_template"));
  }
  return checked(quire::render_chat(held->chat_templates(), held->tokenizer(), std::move(request)));
}

nb::dict PyEngine::info() const {
  const auto held = engine();
  const ModelInfo& m = held->model();
  nb::dict d;
  d["name"] = to_str(m.name);
  d["path"] = to_str(m.path);
  d["architecture"] = to_str(m.architecture);
  d["task"] = m.task == ModelTask::kGenerate ? "generate"
              : m.task == ModelTask::kEmbed  ? "embed"
                                             : "classify";
  d["device"] = to_str(m.device);
  d["isa"] = to_str(m.isa);
  d["weight_dtype"] = to_str(m.weight_dtype);
  d["quantization"] = to_str(m.quantization);
  d["kv_cache_dtype"] = to_str(m.kv_cache_dtype);
  d["vocab_size"] = m.vocab_size;
  d["max_model_len"] = m.max_model_len;
  d["num_parameters"] = m.num_parameters;
  d["weight_bytes"] = m.weight_bytes;
  d["block_size"] = m.block_size;
  d["num_blocks"] = m.num_blocks;
  d["kv_bytes_per_token"] = m.kv_bytes_per_token;
  d["kv_pool_bytes"] = m.kv_pool_bytes;
  d["max_num_seqs"] = m.max_num_seqs;
  d["max_num_batched_tokens"] = m.max_num_batched_tokens;
  d["num_threads"] = m.num_threads;
  d["load_seconds"] = m.load_seconds;
  d["embedding_size"] = m.embedding_size;
  d["labels"] = nb::cast(m.labels);
  d["end_token_ids"] = to_list(m.end_token_ids);
  d["bidirectional"] = m.bidirectional;
  d["has_tokenizer"] = held->tokenizer() != nullptr;
  const ChatTemplate* chat_template = held->chat_templates().find("default");
  d["chat_template"] = chat_template == nullptr ? nb::none() : nb::object(to_str(chat_template->source()));
  d["has_chat_template"] = !held->chat_templates().empty();
  return d;
}

nb::dict PyEngine::stats() const {
  const EngineStats s = engine()->stats();
  nb::dict d;
  d["num_running"] = s.num_running;
  d["num_waiting"] = s.num_waiting;
  d["num_finished"] = s.num_finished;
  d["num_preemptions"] = s.num_preemptions;
  d["num_steps"] = s.num_steps;
  d["prompt_tokens"] = s.prompt_tokens;
  d["generation_tokens"] = s.generation_tokens;
  d["prefix_cache_queries"] = s.prefix_cache_queries;
  d["prefix_cache_hits"] = s.prefix_cache_hits;
  d["kv_cache_usage"] = s.kv_cache_usage;
  d["num_free_blocks"] = s.num_free_blocks;
  d["num_blocks"] = s.num_blocks;
  return d;
}

// Spelling and id of a special token; (None, None) if the model has none.
nb::tuple special_token(const std::string& text, std::optional<TokenId> id) {
  return nb::make_tuple(text.empty() ? nb::none() : nb::object(to_str(text)),
                        id ? nb::object(nb::int_(*id)) : nb::none());
}

nb::dict special_tokens(const PyEngine& self) {
  const auto engine = self.engine();
  const Tokenizer& t = self.tokenizer(*engine);
  nb::dict d;
  d["bos"] = special_token(t.bos_token(), t.bos_id());
  d["eos"] = special_token(t.eos_token(), t.eos_id());
  d["unk"] = special_token(t.unk_token(), t.unk_id());
  d["pad"] = special_token(t.pad_token(), t.pad_id());
  nb::list all;
  for (TokenId id = 0; id < static_cast<TokenId>(t.vocab_size()); ++id) {
    if (t.is_special(id)) all.append(id);
  }
  d["all"] = all;
  return d;
}

void bind_tokenizer(nb::class_<PyEngine>& cls) {
  cls.def("encode", [](const PyEngine& self, const std::string& text, bool add_special_tokens) {
    const auto engine = self.engine();
    std::vector<TokenId> ids;
    {
      const GilRelease released;
      ids = self.tokenizer(*engine).encode(text, add_special_tokens);
    }
    return to_list(ids);
  });
  cls.def("encode_rendered", [](const PyEngine& self, const std::string& text) {
    const auto engine = self.engine();
    std::vector<TokenId> ids;
    {
      const GilRelease released;
      ids = self.tokenizer(*engine).encode_rendered(text);
    }
    return to_list(ids);
  });
  cls.def("decode", [](const PyEngine& self, const std::vector<TokenId>& ids, bool skip_special_tokens) {
    const auto engine = self.engine();
    return to_str(self.tokenizer(*engine).decode(ids, skip_special_tokens));
  });
  cls.def("id_to_token", [](const PyEngine& self, TokenId id) {
    const auto engine = self.engine();
    return to_str(self.tokenizer(*engine).id_to_token(id));
  });
  cls.def("token_to_id", [](const PyEngine& self, const std::string& token) {
    const auto engine = self.engine();
    return self.tokenizer(*engine).token_to_id(token);
  });
  cls.def("token_text", &PyEngine::token_text);
  cls.def("tokenizer_size", [](const PyEngine& self) {
    const auto engine = self.engine();
    return self.tokenizer(*engine).vocab_size();
  });
  cls.def("special_tokens", &special_tokens);
  cls.def("render_chat", &PyEngine::render_chat, nb::arg("fields"), nb::arg("content_format"),
          nb::arg("keep_media"));
}

void bind_engine(nb::module_& m) {
  nb::class_<PyEngine> cls(m, "Engine");
  cls.def(nb::init<const nb::dict&, const nb::object&>(), nb::arg("options"), nb::arg("progress").none());
  cls.def("close", &PyEngine::close);
  cls.def("submit", &PyEngine::submit);
  cls.def("submit_pooling", &PyEngine::submit_pooling);
  cls.def("submit_pairs", &PyEngine::submit_pairs);
  cls.def("submit_stream", &PyEngine::submit_stream, nb::arg("outbox"), nb::arg("key"), nb::arg("prompt"),
          nb::arg("sampling").none(), nb::arg("pooling").none(), nb::arg("priority"),
          nb::arg("add_special_tokens"), nb::arg("truncate"), nb::arg("keep_right"));
  cls.def("results", &PyEngine::results);
  cls.def("pooled", &PyEngine::pooled);
  cls.def("take", &PyEngine::take);
  cls.def("info", &PyEngine::info);
  cls.def("stats", &PyEngine::stats);
  cls.def("metrics", [](const PyEngine& self) { return to_str(self.engine()->metrics().render()); });
  cls.def("failure", [](const PyEngine& self) { return self.engine()->failure(); });
  cls.def("default_sampling",
          [](const PyEngine& self) { return from_sampling_params(self.engine()->default_sampling()); });
  cls.def("reset_prefix_cache", &PyEngine::reset_prefix_cache);
  cls.def("load_lora", &PyEngine::load_lora);
  cls.def("unload_lora", &PyEngine::unload_lora);
  bind_tokenizer(cls);
}

}  // namespace
}  // namespace quire::python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace quire::python;  // NOLINT: names of the binding only
  // Engines may live until the process ends.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate_exception);
  nb::class_<quire::SharedSamplingParams>(m, "SamplingParams")
      .def("__init__", [](quire::SharedSamplingParams* self, const nb::dict& fields) {
        new (self) quire::SharedSamplingParams(to_sampling_params(fields));
      });
  nb::class_<Batch>(m, "Batch")
      .def("wait",
           [](Batch& self, double seconds) {
             quire::RequestBatch::Progress p;
             {
               const GilRelease released;
               p = self.wait(seconds);
             }
             return nb::make_tuple(p.num_finished, p.num_prompt_tokens, p.num_output_tokens);
           })
      .def("abort", &Batch::abort)
      .def("prompt", [](const Batch& self, size_t index) { return to_list(self.prompt(index)); })
      .def("__len__", &Batch::size);
  nb::class_<PyOutbox>(m, "Outbox").def(nb::init<>()).def_prop_ro("fd", [](const PyOutbox& self) {
    return self.outbox->fd();
  });
  bind_engine(m);
  m.def("fetch", &fetch, nb::arg("model"), nb::arg("revision"), nb::arg("token").none(),
        nb::arg("cache").none(), nb::arg("progress"));
  m.def("begin_exit", [] { ExitState::instance().begin(); });
  m.def("set_log_level", [](const std::string& name) { return quire::set_log_level(name); });
  m.attr("version") = quire::build_info().version;
}
