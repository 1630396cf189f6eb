#include "convert.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <array>
#include <charconv>
#include <map>
#include <string>
#include <variant>

#include "base/strings.h"

namespace quire::python {
namespace {

[[noreturn]] void reject(const std::string& message) {
  throw RequestError(ErrorKind::kInvalidArgument, message);
}

std::string python_type_of(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

// UTF-8 of a Python string. Raises UnicodeEncodeError for lone surrogates.
std::string to_text(nb::handle object) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

template <typename T>
T checked(nb::handle value, std::string_view name) {
  T result{};
  if (!nb::try_cast<T>(value, result)) {
    throw RequestError(ErrorKind::kInvalidArgument,
                       cat(name, ": a value of type ", python_type_of(value),
                           " is not valid here: ", nb::cast<std::string>(nb::repr(value)).substr(0, 100)));
  }
  return result;
}

// A list or tuple of integers.
std::vector<TokenId> to_ids(nb::handle object, const std::string& place) {
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr()))
    reject(cat(place, " must be a list of token ids, not ", python_type_of(object)));
  const bool list = PyList_Check(object.ptr());
  const Py_ssize_t size = PySequence_Size(object.ptr());
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = list ? PyList_GetItem(object.ptr(), i) : PyTuple_GetItem(object.ptr(), i);
    const long value = item == nullptr ? -1 : PyLong_AsLong(item);
    if (PyErr_Occurred() != nullptr || value < INT32_MIN || value > INT32_MAX) {
      PyErr_Clear();
      reject(cat(place, "[", i, "] is not a token id"));
    }
    ids.push_back(static_cast<TokenId>(value));
  }
  return ids;
}

void read_prompt_dict(nb::handle object, size_t index, PromptInput& prompt) {
  const auto dict = nb::borrow<nb::dict>(object);
  for (const char* key : {"prompt_embeds", "multi_modal_data", "encoder_prompt"}) {
    if (!dict.contains(key) || nb::object(dict[key]).is_none()) continue;
    throw RequestError(
        ErrorKind::kUnsupported,
        cat("prompt ", index, ": '", key, "' is not supported; give 'prompt' or 'prompt_token_ids'"));
  }
  if (dict.contains("prompt_token_ids") && !nb::object(dict["prompt_token_ids"]).is_none()) {
    prompt.ids = to_ids(dict["prompt_token_ids"], cat("prompt ", index, ": prompt_token_ids"));
    prompt.has_ids = true;
  } else if (dict.contains("prompt") && nb::isinstance<nb::str>(dict["prompt"])) {
    prompt.text = to_text(dict["prompt"]);
  } else {
    reject(cat("prompt ", index, ": a dictionary needs 'prompt' (a string) or 'prompt_token_ids' (a list)"));
  }
  if (dict.contains("cache_salt") && !nb::object(dict["cache_salt"]).is_none())
    prompt.cache_salt = to_text(dict["cache_salt"]);
  if (dict.contains("lora")) prompt.lora = to_text(dict["lora"]);
}

const char* exception_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUnsupported:
      return "UnsupportedError";
    case ErrorKind::kOverloaded:
      return "QueueOverflowError";
    case ErrorKind::kInternal:
      return "EngineDeadError";
    default:
      return "ValidationError";
  }
}

void raise(const char* type, const char* message) {
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      message, static_cast<Py_ssize_t>(std::char_traits<char>::length(message)), "replace"));
  PyErr_SetObject(nb::module_::import_("quire.exceptions").attr(type).ptr(), text.ptr());
}

}  // namespace

void translate_exception(const std::exception_ptr& error, void* /*payload*/) {
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& e) {
    raise(exception_name(e.kind()), e.what());
  } catch (const Error& e) {
    raise("QuireError", e.what());
  }
}

nb::str to_str(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list to_list(const std::vector<TokenId>& ids) {
  nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(ids.size())));
  for (size_t i = 0; i < ids.size(); ++i)
    PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLong(ids[i]));
  return list;
}

nb::object TokenTexts::get(const Tokenizer* tokenizer, TokenId token) {
  if (tokenizer == nullptr) return nb::none();
  const nb::object key = nb::int_(token);
  PyObject* known = PyDict_GetItemWithError(texts_.ptr(), key.ptr());
  if (known != nullptr) return nb::borrow(known);
  nb::str text = to_str(tokenizer->token_bytes(token));
  texts_[key] = text;
  return text;
}

PromptInput to_prompt(nb::handle object, size_t index) {
  PromptInput prompt;
  if (PyUnicode_Check(object.ptr())) {
    prompt.text = to_text(object);
  } else if (PyDict_Check(object.ptr())) {
    read_prompt_dict(object, index, prompt);
  } else if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    prompt.ids = to_ids(object, cat("prompt ", index));
    prompt.has_ids = true;
  } else {
    reject(cat("prompt ", index, " must be a string, a list of token ids or a dictionary, not ",
               python_type_of(object)));
  }
  return prompt;
}

std::vector<PromptInput> to_prompts(nb::handle sequence) {
  std::vector<PromptInput> prompts;
  for (const nb::handle object : sequence) prompts.push_back(to_prompt(object, prompts.size()));
  return prompts;
}

namespace {

const std::map<std::string, SchedulingPolicy>& policies() {
  static const std::map<std::string, SchedulingPolicy> map = {{"fcfs", SchedulingPolicy::kFcfs},
                                                              {"priority", SchedulingPolicy::kPriority},
                                                              {"mlfq", SchedulingPolicy::kMlfq},
                                                              {"fair", SchedulingPolicy::kFair}};
  return map;
}

const std::map<std::string, FairBy>& fair_bys() {
  static const std::map<std::string, FairBy> map = {{"client", FairBy::kClient},
                                                    {"adapter", FairBy::kAdapter}};
  return map;
}

const std::map<std::string, PreemptionMode>& preemption_modes() {
  static const std::map<std::string, PreemptionMode> map = {{"auto", PreemptionMode::kAuto},
                                                            {"recompute", PreemptionMode::kRecompute},
                                                            {"swap", PreemptionMode::kSwap}};
  return map;
}

const std::map<std::string, LogprobsMode>& logprobs_modes() {
  static const std::map<std::string, LogprobsMode> map = {
      {"raw_logprobs", LogprobsMode::kRawLogprobs},
      {"raw_logits", LogprobsMode::kRawLogits},
      {"processed_logprobs", LogprobsMode::kProcessedLogprobs},
      {"processed_logits", LogprobsMode::kProcessedLogits}};
  return map;
}

template <typename T>
T choice(const std::map<std::string, T>& values, nb::handle value, const std::string& name) {
  const auto text = checked<std::string>(value, name);
  if (const auto found = values.find(text); found != values.end()) return found->second;
  std::string known;
  for (const auto& [spelling, unused] : values) known += (known.empty() ? "" : ", ") + spelling;
  reject(cat(name, " is '", text, "'; it must be one of ", known));
}

using OptionField =
    std::variant<std::string EngineOptions::*, int32_t EngineOptions::*, int64_t EngineOptions::*,
                 uint64_t EngineOptions::*, bool EngineOptions::*, double EngineOptions::*>;

const std::map<std::string, OptionField>& option_fields() {
  static const std::map<std::string, OptionField> fields = {
      {"model", &EngineOptions::model},
      {"revision", &EngineOptions::revision},
      {"dtype", &EngineOptions::dtype},
      {"quantization", &EngineOptions::quantization},
      {"kv_cache_dtype", &EngineOptions::kv_cache_dtype},
      {"activation_dtype", &EngineOptions::activation_dtype},
      {"kernel_tuning", &EngineOptions::kernel_tuning},
      {"weight_cache", &EngineOptions::weight_cache},
      {"max_model_len", &EngineOptions::max_model_len},
      {"runner", &EngineOptions::runner},
      {"block_size", &EngineOptions::block_size},
      {"kv_cache_memory", &EngineOptions::kv_cache_memory},
      {"max_num_seqs", &EngineOptions::max_num_seqs},
      {"max_num_batched_tokens", &EngineOptions::max_num_batched_tokens},
      {"long_prefill_token_threshold", &EngineOptions::long_prefill_token_threshold},
      {"max_num_partial_prefills", &EngineOptions::max_num_partial_prefills},
      {"enable_prefix_caching", &EngineOptions::enable_prefix_caching},
      {"jump_ahead", &EngineOptions::jump_ahead},
      {"swap_space", &EngineOptions::swap_space},
      {"kv_disk_cache", &EngineOptions::kv_disk_cache},
      {"kv_disk_cache_size", &EngineOptions::kv_disk_cache_size},
      {"ttft_slo", &EngineOptions::ttft_slo},
      {"tpot_slo", &EngineOptions::tpot_slo},
      {"max_num_queued_requests", &EngineOptions::max_num_queued_requests},
      {"max_logprobs", &EngineOptions::max_logprobs},
      {"enable_lora", &EngineOptions::enable_lora},
      {"max_lora_rank", &EngineOptions::max_lora_rank},
      {"lora_memory", &EngineOptions::lora_memory},
      {"lora_dir", &EngineOptions::lora_dir},
      {"max_loras", &EngineOptions::max_loras},
      {"max_cpu_loras", &EngineOptions::max_cpu_loras},
      {"device", &EngineOptions::device},
      {"profile", &EngineOptions::profile},
      {"threads", &EngineOptions::threads},
      {"seed", &EngineOptions::seed},
      {"chat_template", &EngineOptions::chat_template},
      {"generation_config", &EngineOptions::generation_config},
  };
  return fields;
}

using SamplingField =
    std::variant<int32_t SamplingParams::*, float SamplingParams::*, bool SamplingParams::*,
                 std::optional<int32_t> SamplingParams::*, std::optional<int64_t> SamplingParams::*>;

const std::map<std::string, SamplingField>& sampling_fields() {
  static const std::map<std::string, SamplingField> fields = {
      {"n", &SamplingParams::n},
      {"max_tokens", &SamplingParams::max_tokens},
      {"temperature", &SamplingParams::temperature},
      {"top_p", &SamplingParams::top_p},
      {"top_k", &SamplingParams::top_k},
      {"min_p", &SamplingParams::min_p},
      {"repetition_penalty", &SamplingParams::repetition_penalty},
      {"presence_penalty", &SamplingParams::presence_penalty},
      {"frequency_penalty", &SamplingParams::frequency_penalty},
      {"typical_p", &SamplingParams::typical_p},
      {"top_n_sigma", &SamplingParams::top_n_sigma},
      {"min_keep", &SamplingParams::min_keep},
      {"dynatemp_range", &SamplingParams::dynatemp_range},
      {"dynatemp_exponent", &SamplingParams::dynatemp_exponent},
      {"xtc_probability", &SamplingParams::xtc_probability},
      {"xtc_threshold", &SamplingParams::xtc_threshold},
      {"dry_multiplier", &SamplingParams::dry_multiplier},
      {"dry_base", &SamplingParams::dry_base},
      {"dry_allowed_length", &SamplingParams::dry_allowed_length},
      {"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n},
      {"mirostat_mode", &SamplingParams::mirostat_mode},
      {"mirostat_tau", &SamplingParams::mirostat_tau},
      {"mirostat_eta", &SamplingParams::mirostat_eta},
      {"seed", &SamplingParams::seed},
      {"include_stop_str_in_output", &SamplingParams::include_stop_str_in_output},
      {"ignore_eos", &SamplingParams::ignore_eos},
      {"min_tokens", &SamplingParams::min_tokens},
      {"thinking_token_budget", &SamplingParams::thinking_token_budget},
      {"logprobs", &SamplingParams::logprobs},
      {"prompt_logprobs", &SamplingParams::prompt_logprobs},
      {"use_beam_search", &SamplingParams::use_beam_search},
      {"beam_width", &SamplingParams::beam_width},
      {"length_penalty", &SamplingParams::length_penalty},
      {"skip_special_tokens", &SamplingParams::skip_special_tokens},
      {"spaces_between_special_tokens", &SamplingParams::spaces_between_special_tokens},
  };
  return fields;
}

template <typename Owner, typename T>
void assign(Owner& owner, T Owner::*field, nb::handle value, std::string_view name) {
  owner.*field = checked<T>(value, name);
}

template <typename T>
void assign(SamplingParams& owner, std::optional<T> SamplingParams::*field, nb::handle value,
            std::string_view name) {
  owner.*field = checked<T>(value, name);
}

StructuredOutputs to_constraint(const nb::dict& fields) {
  using Kind = StructuredOutputs::Kind;
  static const std::map<std::string, Kind> kinds = {
      {"json", Kind::kJsonSchema},        {"regex", Kind::kRegex},
      {"choice", Kind::kChoice},          {"grammar", Kind::kGrammar},
      {"json_object", Kind::kJsonObject}, {"structural_tag", Kind::kStructuralTag}};
  StructuredOutputs constraint;
  constraint.kind = choice(kinds, fields["kind"], "structured_outputs");
  constraint.text = checked<std::string>(fields["text"], "structured_outputs");
  constraint.disable_any_whitespace = checked<bool>(fields["disable_any_whitespace"], "structured_outputs");
  return constraint;
}

RepetitionDetection to_repetition_detection(const nb::dict& fields) {
  const auto number = [&](const char* name) { return checked<int32_t>(fields[name], name); };
  return {number("max_pattern_size"), number("min_pattern_size"), number("min_count")};
}

using ListField =
    std::variant<std::vector<std::string> SamplingParams::*, std::vector<TokenId> SamplingParams::*>;

const std::map<std::string, ListField>& list_fields() {
  static const std::map<std::string, ListField> fields = {
      {"stop", &SamplingParams::stop},
      {"bad_words", &SamplingParams::bad_words},
      {"samplers", &SamplingParams::samplers},
      {"dry_sequence_breakers", &SamplingParams::dry_sequence_breakers},
      {"stop_token_ids", &SamplingParams::stop_token_ids},
      {"allowed_token_ids", &SamplingParams::allowed_token_ids},
      {"logprob_token_ids", &SamplingParams::logprob_token_ids},
      {"prompt_logprob_token_ids", &SamplingParams::prompt_logprob_token_ids},
  };
  return fields;
}

void set_list(std::vector<TokenId>& list, nb::handle value, const std::string& name) {
  list = to_ids(value, name);
}

void set_list(std::vector<std::string>& list, nb::handle value, const std::string& name) {
  list.clear();
  for (const nb::handle text : value) list.push_back(checked<std::string>(text, name));
}

void assign_list(SamplingParams& params, const std::string& name, nb::handle value) {
  if (const auto list = list_fields().find(name); list != list_fields().end()) {
    std::visit([&](const auto member) { set_list(params.*member, value, name); }, list->second);
  } else if (name == "repetition_detection") {
    params.repetition_detection = to_repetition_detection(checked<nb::dict>(value, name));
  } else if (name == "logit_bias") {
    for (const auto [token, bias] : checked<nb::dict>(value, name))
      params.logit_bias.emplace_back(checked<TokenId>(token, name), checked<float>(bias, name));
  } else if (name == "structured_outputs") {
    params.structured_outputs = to_constraint(checked<nb::dict>(value, name));
  } else if (name == "early_stopping") {
    params.early_stopping = choice<EarlyStopping>(
        {{"no", EarlyStopping::kNo}, {"yes", EarlyStopping::kYes}, {"never", EarlyStopping::kNever}}, value,
        name);
  } else {
    reject(cat("sampling parameters have no field '", name, "'"));
  }
}

// The double with the shortest decimal that parses to the float: 0.8, not 0.800000011920929.
double as_written(float value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = 0.0;
  std::from_chars(text.data(), written.ptr, result);
  return result;
}

}  // namespace

EngineOptions to_options(const nb::dict& fields) {
  EngineOptions options;
  for (const auto [key, value] : fields) {
    const auto name = nb::cast<std::string>(key);
    if (name == "scheduling_policy") {
      options.scheduling_policy = choice(policies(), value, name);
    } else if (name == "fair_by") {
      options.fair_by = choice(fair_bys(), value, name);
    } else if (name == "preemption_mode") {
      options.preemption_mode = choice(preemption_modes(), value, name);
    } else if (name == "logprobs_mode") {
      options.logprobs_mode = choice(logprobs_modes(), value, name);
    } else if (const auto field = option_fields().find(name); field != option_fields().end()) {
      std::visit([&, v = value](const auto member) { assign(options, member, v, name); }, field->second);
    } else {
      reject(cat("engine options have no field '", name, "'"));
    }
  }
  return options;
}

SharedSamplingParams to_sampling_params(const nb::dict& fields) {
  SamplingParams params;
  for (const auto [key, value] : fields) {
    const auto name = nb::cast<std::string>(key);
    const auto field = sampling_fields().find(name);
    if (field == sampling_fields().end()) {
      assign_list(params, name, value);
    } else {
      std::visit([&, v = value](const auto member) { assign(params, member, v, name); }, field->second);
    }
  }
  return {std::move(params)};
}

nb::dict from_sampling_params(const SamplingParams& params) {
  nb::dict fields;
  fields["temperature"] = as_written(params.temperature);
  fields["top_p"] = as_written(params.top_p);
  fields["top_k"] = params.top_k;
  fields["min_p"] = as_written(params.min_p);
  fields["repetition_penalty"] = as_written(params.repetition_penalty);
  fields["max_tokens"] = params.max_tokens;
  // The others that a model's files can set.
  fields["typical_p"] = as_written(params.typical_p);
  fields["xtc_probability"] = as_written(params.xtc_probability);
  fields["xtc_threshold"] = as_written(params.xtc_threshold);
  fields["mirostat_mode"] = params.mirostat_mode;
  fields["mirostat_tau"] = as_written(params.mirostat_tau);
  fields["mirostat_eta"] = as_written(params.mirostat_eta);
  if (!params.samplers.empty()) fields["samplers"] = params.samplers;
  return fields;
}

nb::object to_logprobs(const std::vector<PositionLogprobs>& positions, const Tokenizer* tokenizer,
                       TokenTexts& texts) {
  if (positions.empty()) return nb::none();
  nb::list result;
  for (const PositionLogprobs& position : positions) {
    nb::list tokens;
    nb::list logprobs;
    nb::list ranks;
    nb::list spellings;
    const auto add = [&](const TokenLogprob& entry, const nb::object& rank) {
      tokens.append(entry.token);
      logprobs.append(entry.logprob);
      ranks.append(rank);
      spellings.append(texts.get(tokenizer, entry.token));
    };
    add(position.chosen, nb::int_(position.rank));
    int32_t rank = 0;
    for (const TokenLogprob& entry : position.top) {
      ++rank;
      if (entry.token == position.chosen.token) continue;
      add(entry, position.given ? nb::none() : nb::object(nb::int_(rank)));
    }
    result.append(nb::make_tuple(tokens, logprobs, ranks, spellings));
  }
  return result;
}

nb::tuple to_tuple(const CompletionDelta& completion, const Tokenizer* tokenizer, TokenTexts& texts) {
  nb::object finish_reason = nb::none();
  if (completion.finish_reason != FinishReason::kNone)
    finish_reason = nb::str(to_string(completion.finish_reason));
  nb::object stop_reason = nb::none();
  if (const auto* text = std::get_if<std::string>(&completion.stop_reason)) stop_reason = to_str(*text);
  if (const auto* token = std::get_if<TokenId>(&completion.stop_reason)) stop_reason = nb::int_(*token);
  return nb::make_tuple(completion.index, to_str(completion.text), to_list(completion.token_ids),
                        completion.cumulative_logprob, to_logprobs(completion.logprobs, tokenizer, texts),
                        finish_reason, stop_reason);
}

nb::object to_array(const std::vector<float>& values) {
  auto* copy = new std::vector<float>(values);
  const nb::capsule owner(copy, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<1>>(copy->data(), {copy->size()}, owner));
}

nb::tuple to_tuple(const RequestTimes& times) {
  return nb::make_tuple(times.arrival, times.scheduled, times.first_token, times.last_token);
}

}  // namespace quire::python
