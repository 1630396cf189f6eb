// Parsing of requests: accepted fields, and the errors for all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "base/yield_point.h"
#include "server/openai/api.h"
#include "server/openai/common_fields.h"
#include "server/openai/errors.h"
#include "server/openai/generation_spec.h"
#include "server/openai/pooling_spec.h"
#include "unit/server/requests_fixture.h"
#include "unit/server/server_fixture.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(RequestsTest, OverridesTheModelsDefaults) {
  engine.defaults.temperature = 0.6F;
  engine.defaults.top_p = 0.9F;
  engine.info.scheduling_policy = SchedulingPolicy::kPriority;
  const auto spec = completion(
      R"({"prompt":"a","top_p":0.5,"top_k":7,"min_p":0.1,"repetition_penalty":1.1,"presence_penalty":0.2,
    "frequency_penalty":0.3,"seed":-5,"stop":["x","yy"],"stop_token_ids":[3],"include_stop_str_in_output":true,"ignore_eos":true,
    "min_tokens":2,"logit_bias":{"5":-200,"6":1.5},"allowed_token_ids":[1,2],"skip_special_tokens":false,
    "spaces_between_special_tokens":false,"priority":3,"cache_salt":"s","n":2,"best_of":2,"max_tokens":7})");
  ASSERT_TRUE(spec.ok()) << spec.failure().message;
  const SamplingParams& s = spec->sampling;
  EXPECT_FLOAT_EQ(s.temperature, 0.6F);
  EXPECT_FLOAT_EQ(s.top_p, 0.5F);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_FLOAT_EQ(s.min_p, 0.1F);
  EXPECT_FLOAT_EQ(s.repetition_penalty, 1.1F);
  EXPECT_FLOAT_EQ(s.presence_penalty, 0.2F);
  EXPECT_FLOAT_EQ(s.frequency_penalty, 0.3F);
  EXPECT_EQ(s.seed, -5);
  EXPECT_EQ(s.stop, (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(s.stop_token_ids, (std::vector<TokenId>{3}));
  EXPECT_TRUE(s.include_stop_str_in_output);
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<TokenId, float>>{{5, -100.0F}, {6, 1.5F}}));
  EXPECT_EQ(s.allowed_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_FALSE(s.skip_special_tokens);
  EXPECT_FALSE(s.spaces_between_special_tokens);
  EXPECT_EQ(s.n, 2);
  EXPECT_EQ(spec->priority, 3);
  EXPECT_EQ(spec->cache_salt, "s");
  EXPECT_EQ(spec->prompts[0].max_tokens, 7);
  EXPECT_TRUE(spec->ignored_params.empty());
}

TEST_F(RequestsTest, NamesAPriorityThatThePolicyIgnores) {
  using Names = std::vector<std::string>;
  const auto embeddings = [&](const std::string& fields) {
    return parse_embeddings(Json::parse(R"({"input":"a",)" + fields + "}"), engine, options, "id");
  };
  options.strict_params = true;  // the field is known
  for (const auto policy : {SchedulingPolicy::kFcfs, SchedulingPolicy::kMlfq, SchedulingPolicy::kFair}) {
    engine.info.scheduling_policy = policy;
    EXPECT_EQ(completion(R"({"prompt":"a","priority":3})")->ignored_params, Names{"priority"});
    EXPECT_EQ(chat_with(R"("priority":-1)")->ignored_params, Names{"priority"});
    EXPECT_EQ(completion(R"({"prompt":"a","priority":0})")->ignored_params, Names{}) << "the default";
    engine.info.task = ModelTask::kEmbed;
    EXPECT_EQ(embeddings(R"("priority":2)")->ignored_params, Names{"priority"});
    engine.info.task = ModelTask::kGenerate;
  }
  engine.info.scheduling_policy = SchedulingPolicy::kPriority;
  EXPECT_EQ(chat_with(R"("priority":-1)")->ignored_params, Names{});
}

TEST_F(RequestsTest, RejectsInvalidFieldsByName) {
  struct Case {
    const char* fields;
    const char* param;
  };
  const Case cases[] = {
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":[1])", "temperature"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":1e30)", "max_tokens"},
      {R"("max_tokens":99999999999999999999)", "max_tokens"},
      {R"("max_tokens":5000)", "max_tokens"},
      {R"("n":"2")", "n"},
      {R"("n":2000000000)", "n"},
      {R"("top_k":true)", "top_k"},
      {R"("top_p":1e300)", "top_p"},
      {R"("seed":1.5)", "seed"},
      {R"("stop":5)", "stop"},
      {R"("stop":[5])", "stop"},
      {R"("stop":[""])", "stop"},
      {R"("stop_token_ids":[999])", "stop_token_ids"},
      {R"("stop_token_ids":"x")", "stop_token_ids"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"999":1})", "logit_bias"},
      {R"("logit_bias":{"1":"a"})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("allowed_token_ids":[])", "allowed_token_ids"},
      {R"("best_of":3)", "best_of"},
      {R"("best_of":0,"use_beam_search":true)", "best_of"},
      {R"("use_beam_search":"yes")", "use_beam_search"},
      {R"("use_beam_search":true,"stream":true)", "stream"},
      {R"("use_beam_search":true,"early_stopping":"soon")", "early_stopping"},
      {R"("use_beam_search":true,"length_penalty":"long")", "length_penalty"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options"},
      {R"("logprobs":true)", "logprobs"},
      {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
      {R"("truncation_side":"up")", "truncation_side"},
      {R"("cache_salt":"")", "cache_salt"},
      {R"("priority":"high")", "priority"},
      {R"("request_id":5)", "request_id"},
      {R"("echo":"x")", "echo"},
      {R"("response_format":{"type":"xml"})", "response_format"},
  };
  for (const Case& c : cases) {
    const auto spec = completion(cat(R"({"prompt":"a",)", c.fields, "}"));
    ASSERT_FALSE(spec.ok()) << c.fields;
    EXPECT_EQ(http_status(spec.failure().kind), 400) << c.fields;
    EXPECT_EQ(spec.failure().param, c.param) << c.fields;
    expect_sentence(spec.failure(), c.param);
  }
}

TEST_F(RequestsTest, RejectsInvalidPrompts) {
  for (const char* prompt : {"5", "{}", "[]", "null", "[true]", "[[]]", "[\"a\", 5]", "[1, \"a\"]", "[-1]",
                             "[999]", "[[1],[999]]", "true", "[[\"a\"]]", "[1.5]"}) {
    const auto spec = completion(cat(R"({"add_special_tokens":false,"prompt":)", prompt, "}"));
    ASSERT_FALSE(spec.ok()) << prompt;
    EXPECT_EQ(spec.failure().param, "prompt") << prompt;
    expect_sentence(spec.failure(), "prompt");
  }
}

TEST_F(RequestsTest, ReadsTheFieldsOfSamplers) {
  const auto spec = completion(
      R"({"prompt":"a","typical_p":0.9,"top_n_sigma":1.5,"min_keep":2,"dynatemp_range":0.5,"dynatemp_exponent":2,
          "xtc_probability":0.5,"xtc_threshold":0.2,"dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":3,
          "dry_penalty_last_n":64,"dry_sequence_breakers":["x"],"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.2,
          "samplers":["top_k","temperature"],"bad_words":["y"],"logprob_token_ids":[5,3,5],
          "prompt_logprob_token_ids":[7],
          "repetition_detection":{"max_pattern_size":9,"min_pattern_size":2,"min_count":3}})");
  ASSERT_TRUE(spec.ok()) << spec.failure().message;
  const SamplingParams& s = spec->sampling;
  EXPECT_FLOAT_EQ(s.typical_p, 0.9F);
  EXPECT_FLOAT_EQ(s.top_n_sigma, 1.5F);
  EXPECT_EQ(s.min_keep, 2);
  EXPECT_FLOAT_EQ(s.dynatemp_range, 0.5F);
  EXPECT_FLOAT_EQ(s.dynatemp_exponent, 2.0F);
  EXPECT_FLOAT_EQ(s.xtc_probability, 0.5F);
  EXPECT_FLOAT_EQ(s.xtc_threshold, 0.2F);
  EXPECT_FLOAT_EQ(s.dry_multiplier, 0.8F);
  EXPECT_FLOAT_EQ(s.dry_base, 2.0F);
  EXPECT_EQ(s.dry_allowed_length, 3);
  EXPECT_EQ(s.dry_penalty_last_n, 64);
  EXPECT_THAT(s.dry_sequence_breakers, ElementsAre("x"));
  EXPECT_EQ(s.mirostat_mode, 2);
  EXPECT_FLOAT_EQ(s.mirostat_tau, 4.0F);
  EXPECT_FLOAT_EQ(s.mirostat_eta, 0.2F);
  EXPECT_THAT(s.samplers, ElementsAre("top_k", "temperature"));
  EXPECT_THAT(s.bad_words, ElementsAre("y"));
  EXPECT_THAT(s.logprob_token_ids, ElementsAre(5, 3)) << "each token once";
  EXPECT_EQ(spec->logprobs, 2) << "given tokens imply logprobs";
  EXPECT_THAT(s.prompt_logprob_token_ids, ElementsAre(7));
  EXPECT_EQ(spec->prompt_logprobs, 1);
  EXPECT_EQ(s.repetition_detection, (RepetitionDetection{9, 2, 3}));
}

TEST_F(RequestsTest, RejectsUnknownFieldsOfRepetitionDetectionAndStreamedPromptScores) {
  const auto unknown = completion(R"({"prompt":"a","repetition_detection":{"pattern":3}})");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.failure().param, "repetition_detection");
  EXPECT_THAT(unknown.failure().message, HasSubstr("'pattern'"));
  const auto streamed = completion(R"({"prompt":"a","stream":true,"prompt_logprob_token_ids":[1]})");
  ASSERT_FALSE(streamed.ok());
  EXPECT_EQ(streamed.failure().param, "prompt_logprob_token_ids");
}

TEST_F(RequestsTest, NamesAllWrongKeysOfLogitBias) {
  const auto keys = completion(R"({"prompt":"a","logit_bias":{"x":1,"3":2,"-7":1,"99999999":0}})");
  ASSERT_FALSE(keys.ok());
  EXPECT_EQ(keys.failure().param, "logit_bias");
  EXPECT_THAT(keys.failure().message,
              AllOf(HasSubstr("'x'"), HasSubstr("'-7'"), HasSubstr("'99999999'"), Not(HasSubstr("'3'"))));
  const auto values = completion(R"({"prompt":"a","logit_bias":{"1":"a","3":2,"4":[]}})");
  ASSERT_FALSE(values.ok());
  EXPECT_THAT(values.failure().message, AllOf(HasSubstr("'1'"), HasSubstr("'4'"), Not(HasSubstr("'3'"))));
}

TEST_F(RequestsTest, RejectsUnsupportedFields) {
  const auto spec = chat_with(R"("prompt_embeds":["x"])");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.failure().param, "prompt_embeds");
  expect_sentence(spec.failure(), spec.failure().param);
  EXPECT_TRUE(chat_with(R"("prompt_embeds":[],"use_beam_search":false)").ok());
}

TEST_F(RequestsTest, IgnoresSamplingDefaultsInBeamSearch) {
  engine.defaults.temperature = 0.6F;
  engine.defaults.top_p = 0.9F;
  engine.defaults.top_k = 40;
  engine.defaults.repetition_penalty = 1.1F;
  const auto spec = completion(
      R"({"prompt":"a","use_beam_search":true,"n":2,"best_of":4,"length_penalty":0.5,"early_stopping":"never",
    "temperature":0,"allowed_token_ids":[1,2]})");
  ASSERT_TRUE(spec.ok()) << spec.failure().message;
  const SamplingParams& s = spec->sampling;
  EXPECT_TRUE(s.use_beam_search);
  EXPECT_EQ(s.n, 2);
  EXPECT_EQ(s.beam_width, 4);
  EXPECT_EQ(s.num_sequences(), 4);
  EXPECT_FLOAT_EQ(s.length_penalty, 0.5F);
  EXPECT_EQ(s.early_stopping, EarlyStopping::kNever);
  EXPECT_FLOAT_EQ(s.top_p, 1.0F);
  EXPECT_EQ(s.top_k, 0);
  EXPECT_FLOAT_EQ(s.repetition_penalty, 1.0F);
  EXPECT_EQ(chat_with(R"("use_beam_search":true,"n":3,"early_stopping":true)")->sampling.num_sequences(), 3);
  EXPECT_EQ(chat_with(R"("use_beam_search":true,"early_stopping":true)")->sampling.early_stopping,
            EarlyStopping::kYes);
  EXPECT_EQ(chat_with(R"("use_beam_search":true,"early_stopping":false)")->sampling.early_stopping,
            EarlyStopping::kNo);
  // Sampling fields of the request itself are kept, so that the engine rejects them.
  EXPECT_FLOAT_EQ(completion(R"({"prompt":"a","use_beam_search":true,"top_p":0.5})")->sampling.top_p, 0.5F);
}

TEST_F(RequestsTest, MaxNewTokensOfTheModelIsTheDefaultLengthOfChats) {
  const int32_t rest = chat_with("")->prompts[0].max_tokens;
  engine.info.max_new_tokens = 40;
  EXPECT_EQ(chat_with("")->prompts[0].max_tokens, 40);
  EXPECT_EQ(chat_with(R"("max_tokens":50)")->prompts[0].max_tokens, 50);
  EXPECT_EQ(completion(R"({"prompt":"a"})")->prompts[0].max_tokens, 16) << "the default of the API";
  engine.info.max_new_tokens = 100000;
  EXPECT_EQ(chat_with("")->prompts[0].max_tokens, rest);
}

TEST_F(RequestsTest, ReportsUnknownModelsAsNotFound) {
  const auto spec = completion(R"({"prompt":"a","model":"other"})");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.failure().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(completion(R"({"prompt":"a","model":"/models/fake"})").ok());
  EXPECT_EQ(completion(R"({"prompt":"a","model":""})")->model, "fake");
}

TEST_F(RequestsTest, ReportsTheLengthOfALongPrompt) {
  const auto spec = completion(cat(R"({"prompt":")", std::string(5002, 'x'), "\"}"));
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.failure().message,
            "The prompt has 5003 tokens; the maximum is 4095, which leaves room for one generated token "
            "(--max-model-len 4096).");
}

TEST_F(RequestsTest, PromptsThatAreTooLongHaveAKindOfTheirOwn) {
  const std::string text(5002, 'x');
  for (const std::string& body :
       {cat(R"({"prompt":")", text, "\"}"), cat(R"({"prompt":")", std::string(100000, 'x'), "\"}"),
        std::string(R"({"prompt":"a","max_tokens":4096})")}) {
    const auto spec = completion(body);
    ASSERT_FALSE(spec.ok());
    EXPECT_EQ(spec.failure().kind, ErrorKind::kContextLength) << spec.failure().message;
  }
  const HttpResponse response = error_response(completion(cat(R"({"prompt":")", text, "\"}")).failure());
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(Json::parse(response.body)["error"]["code"], "context_length_exceeded");
}

TEST_F(RequestsTest, RejectsTruncationAboveTheLimit) {
  const auto spec = completion(R"({"prompt":"a","truncate_prompt_tokens":4097})");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.failure().param, "truncate_prompt_tokens");
  EXPECT_TRUE(completion(R"({"prompt":"a","truncate_prompt_tokens":4096})").ok());
}

TEST_F(RequestsTest, ServerOptionsAreDefaultsOfRequests) {
  options.force_include_usage = true;
  options.tokens_as_ids = true;
  options.default_chat_template_kwargs = {{"enable_thinking", false}, {"style", "short"}};
  EXPECT_TRUE(completion(R"({"prompt":"a","stream":true})")->include_usage);
  EXPECT_FALSE(completion(R"({"prompt":"a"})")->include_usage);
  EXPECT_TRUE(completion(R"({"prompt":"a"})")->tokens_as_ids);
  EXPECT_FALSE(completion(R"({"prompt":"a","return_tokens_as_token_ids":false})")->tokens_as_ids);
  ASSERT_TRUE(chat_with(R"("chat_template_kwargs":{"style":"long"})").ok());
  EXPECT_EQ(engine.last_chat().kwargs, (Json{{"style", "long"}, {"enable_thinking", false}}));
}

TEST_F(RequestsTest, ChatEchoesTheTextOfTheLastAnswer) {
  const auto echoed = [&](const char* messages) {
    return chat(cat(R"({"echo":true,"messages":)", messages, "}"))->echoed_message;
  };
  EXPECT_EQ(echoed(R"([{"role":"user","content":"a"},{"role":"assistant","content":"Once"}])"), "Once");
  EXPECT_EQ(echoed(R"([{"role":"user","content":"a"}])"), "");
  EXPECT_EQ(chat(R"({"messages":[{"role":"assistant","content":"Once"}]})")->echoed_message, "");
}

TEST_F(RequestsTest, RejectsAVeryLongTextBeforeTokenization) {
  const auto spec = completion(cat(R"({"prompt":")", std::string(100000, 'x'), "\"}"));
  ASSERT_FALSE(spec.ok());
  EXPECT_NE(spec.failure().message.find("100000 bytes"), std::string::npos) << spec.failure().message;
  EXPECT_EQ(spec.failure().param, "prompt");
  const auto cut =
      completion(cat(R"({"truncate_prompt_tokens":5,"prompt":")", std::string(100000, 'x'), "\"}"));
  EXPECT_EQ(cut->prompts[0].ids.size(), 5U);
}

TEST_F(RequestsTest, TruncatesThePromptIfRequested) {
  const auto left = completion(R"({"prompt":[1,2,3,4],"truncate_prompt_tokens":2})");
  EXPECT_EQ(left->prompts[0].ids, (std::vector<TokenId>{3, 4}));
  const auto right =
      completion(R"({"prompt":[1,2,3,4],"truncate_prompt_tokens":2,"truncation_side":"right"})");
  EXPECT_EQ(right->prompts[0].ids, (std::vector<TokenId>{1, 2}));
  const auto fit = completion(
      cat(R"({"prompt":")", std::string(5000, 'x'), R"(","truncate_prompt_tokens":-1,"max_tokens":6})"));
  EXPECT_EQ(fit->prompts[0].ids.size(), 4090U);
}

TEST_F(RequestsTest, LimitsTheDefaultMaxTokensToTheContext) {
  const auto spec =
      completion(cat(R"({"add_special_tokens":false,"prompt":")", std::string(4090, 'x'), "\"}"));
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->prompts[0].max_tokens, 6);
}

TEST_F(RequestsTest, RejectsInvalidChatMessages) {
  const char* bodies[] = {
      R"({})",
      R"({"messages":[]})",
      R"({"messages":"hi"})",
      R"({"messages":["hi"]})",
      R"({"messages":[{"content":"x"}]})",
      R"({"messages":[{"role":5,"content":"x"}]})",
      R"({"messages":[{"role":"user"}]})",
      R"({"messages":[{"role":"user","content":5}]})",
      R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})",
      R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
      R"({"messages":[{"role":"assistant","tool_calls":[5]}]})",
      R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{broken"}}]}]})",
      R"({"messages":[{"role":"refused","content":"x"}]})",
  };
  for (const char* body : bodies) {
    const auto spec = chat(body);
    ASSERT_FALSE(spec.ok()) << body;
    EXPECT_EQ(spec.failure().kind, ErrorKind::kInvalidArgument) << body;
  }
  const auto image =
      chat(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.failure().kind, ErrorKind::kUnsupported);
}

TEST_F(RequestsTest, PassesMessagesToTheTemplate) {
  const auto spec = chat(R"({"messages":[
    {"role":"system","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":2}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"42"}],
    "chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low","documents":[{"text":"d"}]})");
  ASSERT_TRUE(spec.ok()) << spec.failure().message;
  const ChatRequest prompt = engine.last_chat();
  EXPECT_EQ(prompt.messages[0]["content"][1]["text"], "two");
  EXPECT_FALSE(prompt.messages[1].contains("content"));
  EXPECT_EQ(prompt.messages[1]["tool_calls"][0]["function"]["arguments"], R"({"z":1,"a":2})");
  EXPECT_EQ(prompt.messages[2]["tool_call_id"], "c1");
  EXPECT_EQ(prompt.kwargs["enable_thinking"], false);
  EXPECT_EQ(prompt.kwargs["reasoning_effort"], "low");
  EXPECT_EQ(prompt.documents[0]["text"], "d");
  EXPECT_TRUE(prompt.add_generation_prompt);
}

TEST_F(RequestsTest, ContinuesTheFinalMessage) {
  ASSERT_TRUE(chat_with(R"("continue_final_message":true)").ok());
  EXPECT_TRUE(engine.last_chat().continue_final_message);
  EXPECT_FALSE(engine.last_chat().add_generation_prompt);
  EXPECT_FALSE(chat_with(R"("continue_final_message":true,"add_generation_prompt":true)").ok());
}

TEST_F(RequestsTest, RejectsTemplatesInRequestsUnlessTrusted) {
  const auto refused = chat_with(R"("chat_template":"x")");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().param, "chat_template");
  options.trust_request_chat_template = true;
  ASSERT_TRUE(chat_with(R"("chat_template":"x")").ok());
  EXPECT_EQ(engine.last_chat().chat_template, "x");
  EXPECT_FALSE(chat_with(R"("chat_template_kwargs":{"messages":[]})").ok());
}

TEST_F(RequestsTest, ReportsAMissingChatTemplate) {
  engine.chat_template = false;
  const auto spec = chat_with("");
  ASSERT_FALSE(spec.ok());
  EXPECT_NE(spec.failure().message.find("--chat-template"), std::string::npos);
}

TEST_F(RequestsTest, RejectsTopLogprobsWithoutLogprobs) {
  EXPECT_EQ(chat_with(R"("top_logprobs":3)").failure().param, "top_logprobs");
  EXPECT_TRUE(chat_with(R"("top_logprobs":0)").ok());
  EXPECT_EQ(chat_with(R"("top_logprobs":3,"logprobs":true)")->sampling.logprobs, 3);
  EXPECT_EQ(chat_with(R"("logprobs":true)")->sampling.logprobs, 0);
  EXPECT_FALSE(chat_with(R"("logprobs":false)")->sampling.logprobs);
}

using EndpointsTest = ServerTest;

TEST_F(EndpointsTest, Tokenize) {
  RawClient client(start());
  const Json j = client.post("/tokenize", R"({"prompt":"ab","return_token_strs":true})").json();
  EXPECT_EQ(j["count"], 3);
  EXPECT_EQ(j["max_model_len"], 4096);
  EXPECT_EQ(j["tokens"], Json::parse("[256,97,98]"));
  EXPECT_EQ(j["token_strs"][1], "<97>");
  EXPECT_EQ(client.post("/tokenize", R"({"prompt":"ab","add_special_tokens":false})").json()["count"], 2);
  const Json chat =
      client
          .post("/tokenize", R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})")
          .json();
  EXPECT_EQ(chat["count"], 7);
  EXPECT_EQ(client.post("/tokenize", R"({"content":"ab"})").json()["tokens"], Json::parse("[97,98]"));
  const Json pieces = client.post("/tokenize", R"({"content":"aé","with_pieces":true})").json();
  EXPECT_EQ(pieces["tokens"][0], Json::parse(R"({"id":97,"piece":"a"})"));
  EXPECT_EQ(pieces["tokens"][1], Json::parse(R"({"id":195,"piece":[195]})"));
  EXPECT_EQ(client.post("/tokenize", R"({"x":1})").status, 400);
  EXPECT_EQ(client.post("/tokenize", R"({"prompt":5})").json()["error"]["param"], "prompt");
}

TEST(Tokenize, ThrowsIfItIsCancelledWhenItWritesTheResponse) {
  FakeEngine engine;
  const ApiState state{.engine = engine, .options = kOptions};
  std::stop_source stop;
  stop.request_stop();
  for (const char* body :
       {R"({"prompt":"ab"})", R"({"content":"ab"})", R"({"content":"ab","with_pieces":true})"})
    EXPECT_THROW((void)tokenize(Json::parse(body), state, YieldPoint(stop.get_token())), Cancelled) << body;
}

TEST_F(EndpointsTest, Detokenize) {
  RawClient client(start());
  const Json j = client.post("/detokenize", R"({"tokens":[97,98]})").json();
  EXPECT_EQ(j["prompt"], "ab");
  EXPECT_EQ(j["content"], "ab");
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[9999]})").status, 400);
  EXPECT_EQ(client.post("/detokenize", R"({})").status, 400);
}

TEST_F(EndpointsTest, ModelsAndVersion) {
  options.served_model_names = {"one", "org/two"};
  options.version = "1.2.3";
  RawClient client(start());
  const Json list = client.get("/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "one");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(client.get("/v1/models/one").json()["id"], "one");
  EXPECT_EQ(client.get("/v1/models/org/two").json()["id"], "org/two");
  EXPECT_EQ(client.get("/v1/models/org%2Ftwo").json()["id"], "org/two");
  EXPECT_EQ(client.get("/v1/models/three").status, 404);
  EXPECT_EQ(client.get("/version").json()["version"], "1.2.3");
  EXPECT_NE(client.get("/metrics").body.find("{model_name=\"one\"}"), std::string::npos);
}

TEST_F(EndpointsTest, RejectsInvalidBodiesAndServesTheNextRequest) {
  RawClient client(start());
  for (const std::string& body :
       {std::string("{"), std::string("[]"), std::string("\xff\xfe"), std::string(1000, '['),
        std::string("{\"prompt\":\"\xc3\"}"), std::string("\0\0", 2), std::string("a=1&b=2")}) {
    const RawResponse r = client.post("/v1/completions", body);
    EXPECT_EQ(r.status, 400);
    EXPECT_EQ(r.json()["error"]["type"], "invalid_request_error");
    EXPECT_EQ(
        client.post("/v1/completions", R"({"prompt":"ab","max_tokens":2})").json()["choices"][0]["text"],
        "ba");
  }
  EXPECT_EQ(client.post("/v1/completions", "x", "Content-Encoding: gzip\r\n").status, 415);
}

}  // namespace
}  // namespace quire
