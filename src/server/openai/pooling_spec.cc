#include "server/openai/pooling_spec.h"

#include <algorithm>

#include "base/counted.h"
#include "base/strings.h"
#include "server/openai/common_fields.h"

namespace quire {
namespace {

constexpr size_t kMaxDocuments = 4096;
// A reranker reads the query again with each document. Bytes of all these copies together.
constexpr size_t kMaxRepeatedQueryBytes = 8 << 20;

// Parses one pooling request: the fields that all endpoints have, and helpers for the rest.
struct Reading {
  Reading(const Json& body, const ServingEngine& serving, const ApiOptions& api, const YieldPoint& point)
      : fields(body), engine(serving), options(api), yield_point(point) {}

  void begin(std::string_view prefix, const std::string& request_id) {
    read_labels(fields, options, engine, prefix, request_id, spec);
    truncation = read_truncation(fields);
    // Encoders read the beginning of a text that is too long, decoders the end.
    if (fields.any("truncation_side") == nullptr) truncation.cut_left = !engine.model().bidirectional;
    if (const auto format = fields.text("encoding_format")) {
      if (*format != "float" && *format != "base64")
        fields.fail(cat("encoding_format must be 'float' or 'base64', not '", format->substr(0, 80), "'."),
                    "encoding_format");
      spec.base64 = *format == "base64";
    }
    spec.params.normalize = fields.boolean("normalize");
    for (const char* name : {"use_activation", "activation"}) {
      if (const auto on = fields.boolean(name)) {
        spec.params.activation = *on;
        spec.params.normalize = on;
      }
    }
  }

  Status require(ModelTask task) const {
    const ModelTask actual = engine.model().task;
    if (actual == task) return {};
    const auto kind = [](ModelTask t) {
      return t == ModelTask::kGenerate ? "a generation model"
             : t == ModelTask::kEmbed  ? "an embedding model"
                                       : "a classification or reranking model";
    };
    return invalid_argument(
        cat("This endpoint needs ", kind(task), "; ", engine.model().name, " is ", kind(actual),
            actual == ModelTask::kGenerate ? " (--runner pooling makes it an embedding model)" : "", "."),
        "model");
  }

  Status add(PromptInput prompt) {
    if (const Status fit = fit_prompt(prompt, truncation, 0, 0, engine.model()); !fit.ok()) {
      Failure failure = fit.failure();
      failure.param = "input";
      return failure;
    }
    spec.texts.push_back({std::move(prompt.ids), 0});
    return {};
  }

  // A single text. Truncation removes tokens of the text, never the special tokens around it.
  Status add_text(const std::string& text) {
    PromptInput prompt{engine.encode(text, true, yield_point), text, 0};
    if (truncation.keep) {
      const auto plain = engine.encode(text, false, yield_point);
      const size_t around = prompt.ids.size() - std::min(prompt.ids.size(), plain.size());
      const auto begin = std::search(prompt.ids.begin(), prompt.ids.end(), plain.begin(), plain.end());
      const int64_t keep = *truncation.keep < 0 ? engine.model().max_model_len : *truncation.keep;
      const int64_t of_text = std::max<int64_t>(0, keep - static_cast<int64_t>(around));
      if (!plain.empty() && begin != prompt.ids.end() && static_cast<int64_t>(plain.size()) > of_text) {
        const auto end = begin + static_cast<int64_t>(plain.size());
        if (truncation.cut_left) {
          prompt.ids.erase(begin, end - of_text);
        } else {
          prompt.ids.erase(begin + of_text, end);
        }
      }
    }
    return add(std::move(prompt));
  }

  Status add_pair(const std::string& first, const std::string& second);

  Result<PoolingSpec> finish() {
    settle_unread(fields, options, spec.ignored_params);
    if (!fields.ok()) return fields.failure();
    return std::move(spec);
  }

  FieldReader fields;
  const ServingEngine& engine;
  const ApiOptions& options;
  const YieldPoint yield_point;
  Truncation truncation;
  PoolingSpec spec;
};

Status Reading::add_pair(const std::string& first, const std::string& second) {
  const int64_t limit = engine.model().max_model_len;
  const std::string instruction = fields.text("instruction").value_or("");
  PairOptions pair_options{.instruction = instruction};
  if (truncation.keep) pair_options.keep = *truncation.keep < 0 ? limit : *truncation.keep;
  pair_options.cut_left = fields.any("truncation_side") != nullptr && truncation.cut_left;
  auto pair = engine.encode_pair(first, second, pair_options, yield_point);
  if (!pair.ok()) return pair.failure();
  PooledText text = std::move(pair).value();
  if (static_cast<int64_t>(text.ids.size()) > limit) {
    return invalid_argument(
        cat("query and document have ", counted(static_cast<int64_t>(text.ids.size()), "token"),
            " in total; the maximum is ", limit,
            " (--max-model-len; truncate_prompt_tokens: -1 truncates them)."),
        "documents");
  }
  spec.texts.push_back(std::move(text));
  return {};
}

// The text that `prompt_name`, or the model's default, puts before each input; may be empty.
Result<std::string> prompt_text(Reading& r) {
  const ModelInfo& model = r.engine.model();
  const std::string name = r.fields.text("prompt_name").value_or(model.default_prompt);
  if (name.empty()) return std::string();
  const auto at = model.prompts.find(name);
  if (at != model.prompts.end()) return at->second;
  std::vector<std::string> names;
  for (const auto& [known, text] : model.prompts) names.push_back(known);
  return invalid_argument(
      cat("prompt_name is '", name.substr(0, 100), "'; ",
          names.empty() ? "the model has no prompts" : cat("the model's prompts are: ", join(names, ", ")),
          "."),
      "prompt_name");
}

// input: a string, an array of strings, of token ids, or of arrays of token ids.
Status read_input(Reading& r) {
  const ServingEngine& engine = r.engine;
  auto before = prompt_text(r);
  if (!before.ok()) return before.failure();
  const Json* input = r.fields.any("input");
  const auto wrong = [] {
    return invalid_argument(
        "input must be a string, an array of strings, an array of token ids or an array of such arrays.",
        "input");
  };
  if (input == nullptr) return invalid_argument("input is missing.", "input");
  const auto text = [&](const Json& value) -> Status {
    if (!engine.has_tokenizer())
      return invalid_argument("The model has no tokenizer: send the input as token ids.", "input");
    return r.add_text(*before + value.get<std::string>());
  };
  const auto tokens = [&](const Json& value) -> Status {
    auto ids = read_token_ids(value, "input", engine.model().vocab_size);
    if (!ids.ok()) return Failure{ids.failure().kind, ids.failure().message, "input"};
    return r.add({std::move(ids).value(), {}, 0});
  };
  if (input->is_string()) return text(*input);
  if (!input->is_array() || input->empty()) return wrong();
  if ((*input)[0].is_number()) return tokens(*input);
  if (input->size() > kMaxDocuments)
    return invalid_argument(cat("input has ", input->size(), " inputs; the maximum is ", kMaxDocuments, "."),
                            "input");
  for (const Json& element : *input) {
    if (!element.is_string() && !element.is_array()) return wrong();
    if (Status s = element.is_string() ? text(element) : tokens(element); !s.ok()) return s;
  }
  return {};
}

// A conversation instead of `input`, rendered by the chat template.
Status read_messages(Reading& r) {
  auto prompt = read_chat_fields(r.fields, r.options, r.yield_point);
  if (!prompt.ok()) return prompt.failure();
  prompt->add_generation_prompt = r.fields.boolean("add_generation_prompt").value_or(false);
  if (!r.engine.has_tokenizer() || (!r.engine.has_chat_template() && prompt->chat_template.empty()))
    return invalid_argument("The model has no chat template: send `input`.", "messages");
  auto text = r.engine.render_chat(std::move(prompt).value());
  if (!text.ok()) return text.failure();
  return r.add({r.engine.encode_rendered(*text, r.yield_point), {}, 0});
}

Result<PoolingSpec> parse_inputs(Reading& r) {
  if (!r.fields.ok()) return r.fields.failure();
  const Status read = r.fields.any("messages") != nullptr ? read_messages(r) : read_input(r);
  if (!read.ok()) return read.failure();
  return r.finish();
}

// A string, or an array of strings and objects {"text": …}.
Result<std::vector<std::string>> read_documents(Reading& r, std::string_view name) {
  const Json* value = r.fields.any(name);
  const auto wrong = [&] {
    return invalid_argument(
        cat(name, " must be a string or an array of strings (or of objects with 'text')."),
        std::string(name));
  };
  if (value == nullptr) return invalid_argument(cat(name, " is missing."), std::string(name));
  std::vector<std::string> texts;
  const auto add = [&](const Json& item) {
    if (item.is_string()) {
      texts.push_back(item.get<std::string>());
    } else if (item.is_object() && item.contains("text") && item["text"].is_string()) {
      texts.push_back(item["text"].get<std::string>());
    } else {
      return false;
    }
    return true;
  };
  if (!value->is_array()) return add(*value) ? Result<std::vector<std::string>>(texts) : wrong();
  if (value->empty() || value->size() > kMaxDocuments)
    return invalid_argument(
        cat(name, " has ", value->size(), " texts; it must have 1 to ", kMaxDocuments, "."),
        std::string(name));
  for (const Json& item : *value) {
    if (!add(item)) return wrong();
  }
  return texts;
}

// Pairs each right text with its left text, or with the only left text.
Status add_pairs(Reading& r, const std::vector<std::string>& left, const std::vector<std::string>& right) {
  const ModelInfo& model = r.engine.model();
  if (!r.engine.has_tokenizer()) return invalid_argument("The model has no tokenizer.", "model");
  if (model.task == ModelTask::kEmbed) {
    r.spec.compare = true;
    r.spec.num_left = left.size();
    for (const auto* texts : {&left, &right}) {
      for (const std::string& text : *texts) {
        if (Status s = r.add_text(text); !s.ok()) return s;
      }
    }
    return {};
  }
  if (model.task == ModelTask::kGenerate) return r.require(ModelTask::kScore);
  if (model.labels.size() != 1)
    return invalid_argument(cat("The model has ", model.labels.size(), " labels; a reranker has one."),
                            "model");
  if (left.size() == 1 && left[0].size() * right.size() > kMaxRepeatedQueryBytes) {
    return invalid_argument(cat("query has ", left[0].size(), " bytes, for each of ",
                                counted(static_cast<int64_t>(right.size()), "document"), "; the maximum is ",
                                kMaxRepeatedQueryBytes, " bytes in total."),
                            "query");
  }
  for (size_t i = 0; i < right.size(); ++i) {
    if (Status s = r.add_pair(left.size() == 1 ? left[0] : left[i], right[i]); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Result<PoolingSpec> parse_embeddings(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                     const std::string& request_id, const YieldPoint& yield_point) {
  Reading r(body, engine, options, yield_point);
  r.begin("embd-", request_id);
  r.spec.answer = PoolingAnswer::kEmbeddings;
  if (const auto dimensions = r.fields.integer32("dimensions", 1)) r.spec.params.dimensions = *dimensions;
  if (!r.fields.ok()) return r.fields.failure();
  if (const Status s = r.require(ModelTask::kEmbed); !s.ok()) return s.failure();
  return parse_inputs(r);
}

Result<PoolingSpec> parse_classify(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                   const std::string& request_id, const YieldPoint& yield_point) {
  Reading r(body, engine, options, yield_point);
  r.begin("classify-", request_id);
  r.spec.answer = PoolingAnswer::kClasses;
  if (!r.fields.ok()) return r.fields.failure();
  if (const Status s = r.require(ModelTask::kScore); !s.ok()) return s.failure();
  return parse_inputs(r);
}

Result<PoolingSpec> parse_pooling(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                  const std::string& request_id, const YieldPoint& yield_point) {
  Reading r(body, engine, options, yield_point);
  r.begin("pool-", request_id);
  r.spec.answer = PoolingAnswer::kPooled;
  if (const auto dimensions = r.fields.integer32("dimensions", 1)) r.spec.params.dimensions = *dimensions;
  if (!r.fields.ok()) return r.fields.failure();
  if (engine.model().task == ModelTask::kGenerate) return r.require(ModelTask::kEmbed).failure();
  return parse_inputs(r);
}

Result<PoolingSpec> parse_rerank(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                 const std::string& request_id, const YieldPoint& yield_point) {
  Reading r(body, engine, options, yield_point);
  r.begin("rerank-", request_id);
  r.spec.answer = PoolingAnswer::kRerank;
  const auto query = r.fields.text("query");
  r.spec.top_n = static_cast<size_t>(r.fields.integer("top_n", 0, 1 << 30).value_or(0));
  r.spec.return_documents = r.fields.boolean("return_documents").value_or(true);
  (void)r.fields.any("instruction");
  if (!r.fields.ok()) return r.fields.failure();
  if (!query) return invalid_argument("query is missing.", "query");
  auto documents = read_documents(r, "documents");
  if (!documents.ok()) return documents.failure();
  if (const Status s = add_pairs(r, {*query}, *documents); !s.ok()) return s.failure();
  r.spec.documents = std::move(documents).value();
  return r.finish();
}

Result<PoolingSpec> parse_score(const Json& body, const ServingEngine& engine, const ApiOptions& options,
                                const std::string& request_id, const YieldPoint& yield_point) {
  Reading r(body, engine, options, yield_point);
  r.begin("score-", request_id);
  r.spec.answer = PoolingAnswer::kScores;
  (void)r.fields.any("instruction");
  if (!r.fields.ok()) return r.fields.failure();
  const bool old_names = r.fields.any("text_1") != nullptr;
  auto left = read_documents(r, old_names ? "text_1" : "queries");
  if (!left.ok()) return left.failure();
  auto right = read_documents(r, old_names ? "text_2" : "documents");
  if (!right.ok()) return right.failure();
  if (left->size() != 1 && left->size() != right->size()) {
    return invalid_argument(
        cat(old_names ? "text_1 has " : "queries has ", counted(static_cast<int64_t>(left->size()), "text"),
            " for ", counted(static_cast<int64_t>(right->size()), "document"),
            "; it must have one, or one per document."),
        old_names ? "text_1" : "queries");
  }
  if (const Status s = add_pairs(r, *left, *right); !s.ok()) return s.failure();
  return r.finish();
}

}  // namespace quire
