// Completions and chat over real sockets: responses, streams, errors and disconnecting clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/strings.h"
#include "unit/server/server_fixture.h"

namespace quire {
namespace {

using GenerationTest = ServerTest;

TEST_F(GenerationTest, RespondsToACompletion) {
  RawClient client(start());
  const RawResponse r = client.post("/v1/completions", R"({"model":"fake","prompt":"abcd","max_tokens":3})",
                                    "X-Request-Id: r1\r\n");
  ASSERT_EQ(r.status, 200);
  const Json j = r.json();
  EXPECT_EQ(j["id"], "cmpl-r1");
  EXPECT_EQ(j["object"], "text_completion");
  EXPECT_EQ(j["model"], "fake");
  EXPECT_EQ(j["choices"].size(), 1U);
  EXPECT_EQ(j["choices"][0]["text"], "dcb");
  EXPECT_EQ(j["choices"][0]["index"], 0);
  EXPECT_EQ(j["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(j["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(j["usage"]["prompt_tokens"], 5);  // with BOS
  EXPECT_EQ(j["usage"]["completion_tokens"], 3);
  EXPECT_EQ(j["usage"]["total_tokens"], 8);
  EXPECT_EQ(j["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
  EXPECT_FALSE(r.headers.contains("x-ignored-params"));
}

TEST_F(GenerationTest, GeneratesSixteenTokensByDefault) {
  RawClient client(start());
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"ab"})").json()["usage"]["completion_tokens"], 16);
  EXPECT_EQ(client.post("/completions", R"({"prompt":"ab"})").status, 200);
}

TEST_F(GenerationTest, NumbersChoicesByPromptAndSample) {
  RawClient client(start());
  const Json j = client.post("/v1/completions", R"({"prompt":["ab","xyz"],"max_tokens":2,"n":2})").json();
  const std::vector<std::string> expected = {"ba", "ab", "zy", "yx"};
  ASSERT_EQ(j["choices"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(j["choices"][i]["index"], i);
    EXPECT_EQ(j["choices"][i]["text"], expected[i]);
  }
  EXPECT_EQ(j["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(j["usage"]["completion_tokens"], 8);
}

TEST_F(GenerationTest, ReturnsTheHypothesesOfABeamSearch) {
  engine.max_texts = 2;
  RawClient client(start());
  const Json j =
      client.post("/v1/completions", R"({"prompt":["ab","xyz"],"max_tokens":2,"n":3,"use_beam_search":true})")
          .json();
  ASSERT_EQ(j["choices"].size(), 4U);
  EXPECT_EQ(j["choices"][1]["text"], "ab");
  EXPECT_EQ(j["choices"][2]["index"], 3);
  EXPECT_EQ(j["choices"][2]["text"], "zy");
}

TEST_F(GenerationTest, RejectsStreamingABeamSearch) {
  RawClient client(start());
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const RawResponse r = client.post(
        path,
        R"({"prompt":"ab","messages":[{"role":"user","content":"a"}],"use_beam_search":true,"stream":true})");
    EXPECT_EQ(r.status, 400);
    EXPECT_EQ(r.json()["error"]["param"], "stream");
    EXPECT_EQ(r.json()["error"]["type"], "invalid_request_error");
  }
}

TEST_F(GenerationTest, AcceptsTokenIds) {
  RawClient client(start());
  EXPECT_EQ(
      client.post("/v1/completions", R"({"prompt":[97,98],"max_tokens":2})").json()["choices"][0]["text"],
      "ba");
  const Json two = client.post("/v1/completions", R"({"prompt":[[97,98],[99,100]],"max_tokens":2})").json();
  EXPECT_EQ(two["choices"][1]["text"], "dc");
}

TEST_F(GenerationTest, StreamsACompletion) {
  RawClient client(start());
  const RawResponse r = client.post(
      "/v1/completions",
      R"({"prompt":"abcd","max_tokens":5,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(r.headers.at("content-type"), "text/event-stream; charset=utf-8");
  bool done = false;
  const std::vector<Json> chunks = events(r.body, &done);
  EXPECT_TRUE(done);
  std::string text;
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i]["object"], "text_completion");
    EXPECT_TRUE(chunks[i]["usage"].is_null());
    text += chunks[i]["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "dcbad");
  EXPECT_EQ(chunks[chunks.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 5);
}

TEST_F(GenerationTest, StreamsSeveralChoicesCompletely) {
  RawClient client(start());
  const RawResponse r =
      client.post("/v1/completions", R"({"prompt":["abcd","wxyz!"],"max_tokens":40,"n":3,"stream":true})");
  std::map<int, std::string> texts;
  std::map<int, int> ends;
  for (const Json& chunk : events(r.body)) {
    ASSERT_EQ(chunk["choices"].size(), 1U);
    const Json& choice = chunk["choices"][0];
    const int index = choice["index"];
    EXPECT_EQ(ends[index], 0) << "nothing may follow the end of a choice";
    texts[index] += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) ++ends[index];
  }
  ASSERT_EQ(texts.size(), 6U);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(texts[i], FakeEngine::continuation(i < 3 ? "abcd" : "wxyz!", i % 3, 40));
    EXPECT_EQ(ends[i], 1);
  }
}

TEST_F(GenerationTest, RespondsToAChat) {
  RawClient client(start());
  const Json j =
      client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4})")
          .json();
  EXPECT_TRUE(j["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(j["object"], "chat.completion");
  EXPECT_EQ(j["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(j["choices"][0]["message"]["content"], ":tna");
  EXPECT_TRUE(j["choices"][0]["message"]["refusal"].is_null());
  EXPECT_FALSE(j["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(
      client.post("/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4})")
          .status,
      200);
}

TEST_F(GenerationTest, GeneratesUpToTheContextLengthInAChat) {
  engine.info.max_model_len = 50;
  RawClient client(start());
  const Json j =
      client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})").json();
  EXPECT_EQ(j["usage"]["total_tokens"], 50);
}

TEST_F(GenerationTest, PrefersMaxCompletionTokens) {
  RawClient client(start());
  const Json j =
      client
          .post("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":9,"max_completion_tokens":2})")
          .json();
  EXPECT_EQ(j["usage"]["completion_tokens"], 2);
}

TEST_F(GenerationTest, StreamsAChatWithTheRoleFirst) {
  RawClient client(start());
  const RawResponse r = client.post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"n":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  const std::vector<Json> chunks = events(r.body);
  std::map<int, std::string> texts;
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    const Json& choice = chunks[i]["choices"][0];
    EXPECT_EQ(chunks[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(chunks[i]["id"], chunks[0]["id"]);
    EXPECT_TRUE(chunks[i]["usage"].is_object());
    if (i < 2) {
      EXPECT_EQ(choice["delta"]["role"], "assistant");
      EXPECT_EQ(choice["delta"]["content"], "");
      EXPECT_EQ(chunks[i]["usage"]["completion_tokens"], 0);
    } else {
      EXPECT_FALSE(choice["delta"].contains("role"));
    }
    if (choice["delta"].contains("content"))
      texts[choice["index"]] += choice["delta"]["content"].get<std::string>();
  }
  EXPECT_EQ(texts[0], ":tna");
  EXPECT_EQ(texts[1], "tnat");
}

TEST_F(GenerationTest, StreamsTheTimesOfTheEngineOnRequest) {
  RawClient client(start());
  const auto last = [&](const std::string& stream_options) {
    const RawResponse r = client.post(
        "/v1/completions",
        R"({"prompt":["ab","cd"],"max_tokens":4,"stream":true,"stream_options":)" + stream_options + "}");
    return events(r.body).back();
  };
  EXPECT_EQ(last(R"({"include_usage":true,"include_timings":true})")["timings"],
            Json::parse(R"({"queue_ms":250.0,"prefill_ms":750.0,"decode_ms":2500.0})"));
  EXPECT_FALSE(last(R"({"include_usage":true})").contains("timings"));
}

TEST_F(GenerationTest, EchoesThePromptWithItsLogprobs) {
  RawClient client(start());
  const Json j =
      client
          .post("/v1/completions",
                R"({"prompt":"abc","max_tokens":2,"echo":true,"logprobs":2,"add_special_tokens":false})")
          .json();
  const Json& choice = j["choices"][0];
  EXPECT_EQ(choice["text"], "abccb");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json::parse(R"(["a","b","c","c","b"])"));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json::parse("[0,1,2,3,4]"));
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][1], -0.5);
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][3], Json::parse(R"({"c":-0.5,"d":-1.5})"));
}

TEST_F(GenerationTest, ScoresAPromptWithoutGenerating) {
  RawClient client(start());
  for (const std::string_view stream : {"false", "true"}) {
    const RawResponse r = client.post(
        "/v1/completions",
        cat(R"({"prompt":[97,98],"max_tokens":0,"echo":true,"logprobs":1,"stream":)", stream, "}"));
    ASSERT_EQ(r.status, 200) << r.body;
    const Json j = stream == "true" ? events(r.body).at(0) : r.json();
    EXPECT_EQ(j["choices"][0]["text"], "ab");
    EXPECT_EQ(j["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(j["choices"][0]["logprobs"]["tokens"].size(), 2U);
  }
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a","max_tokens":0})").status, 400);
}

TEST_F(GenerationTest, StreamsTheLogprobsOfTheWholeResponse) {
  RawClient client(start());
  const std::string body = R"({"prompt":"abc","max_tokens":6,"echo":true,"logprobs":1,"stream":)";
  const Json whole = client.post("/v1/completions", body + "false}").json()["choices"][0]["logprobs"];
  Json streamed;
  for (const Json& chunk : events(client.post("/v1/completions", body + "true}").body)) {
    const Json& part = chunk["choices"][0]["logprobs"];
    for (const auto& item : part.items()) {
      for (const Json& value : item.value()) streamed[item.key()].push_back(value);
    }
  }
  EXPECT_EQ(streamed, whole);
}

TEST_F(GenerationTest, WritesChatLogprobs) {
  engine.extra_byte_pieces = "\xc3";
  RawClient client(start());
  const Json j =
      client
          .post(
              "/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"logprobs":true,"top_logprobs":2})")
          .json();
  const Json& content = j["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0]["token"], ":");
  EXPECT_EQ(content[0]["bytes"], Json::parse("[58]"));
  EXPECT_EQ(content[0]["logprob"], -0.5);
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], ";");
  EXPECT_EQ(content[1]["token"], "bytes:\\xc3");
  EXPECT_EQ(content[1]["bytes"], Json::parse("[195]"));
  const Json none =
      client
          .post("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"logprobs":true})")
          .json();
  EXPECT_TRUE(none["choices"][0]["logprobs"]["content"][0]["top_logprobs"].empty());
}

TEST_F(GenerationTest, ReturnsTokenIdsAndPromptLogprobs) {
  RawClient client(start());
  const Json j = client
                     .post("/v1/completions",
                           R"({"prompt":[97,98],"max_tokens":1,"return_token_ids":true,"prompt_logprobs":1})")
                     .json();
  EXPECT_EQ(j["choices"][0]["token_ids"], Json::parse("[98]"));
  EXPECT_EQ(j["choices"][0]["prompt_token_ids"], Json::parse("[97,98]"));
  EXPECT_TRUE(j["choices"][0]["prompt_logprobs"][0].is_null());
  EXPECT_EQ(j["choices"][0]["prompt_logprobs"][1]["98"]["decoded_token"], "b");
}

TEST_F(GenerationTest, StreamsTokenIdsWithoutATokenizer) {
  engine.tokenizer = false;
  RawClient client(start());
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a"})").status, 400);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":[97],"max_tokens":2,"logprobs":1})").status, 200);
}

TEST_F(GenerationTest, ChatEchoIsTheBeginningOfTheAnswer) {
  RawClient client(start());
  const std::string body =
      R"("echo":true,"max_tokens":3,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"Once"}]})";
  const Json whole = client.post("/v1/chat/completions", "{" + body).json();
  const std::string text = whole["choices"][0]["message"]["content"];
  EXPECT_TRUE(text.starts_with("Once") && text.size() > 4) << text;
  std::string streamed;
  for (const Json& event : events(client.post("/v1/chat/completions", R"({"stream":true,)" + body).body))
    streamed += event["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(streamed, text);
}

TEST_F(GenerationTest, PromptLogprobsAreNullUnlessRequested) {
  RawClient client(start());
  const Json completion = client.post("/v1/completions", R"({"prompt":"a","max_tokens":1})").json();
  EXPECT_TRUE(completion["choices"][0].contains("prompt_logprobs"));
  EXPECT_TRUE(completion["choices"][0]["prompt_logprobs"].is_null());
  const Json chat =
      client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})")
          .json();
  EXPECT_TRUE(chat.contains("prompt_logprobs"));
  EXPECT_TRUE(chat["prompt_logprobs"].is_null());
}

TEST_F(GenerationTest, NamesIgnoredParams) {
  options.strict_params = false;
  RawClient client(start());
  const RawResponse r = client.post(
      "/v1/completions", R"({"prompt":"a","repeat_penalty":2,"user":"u","frobnicate":[1],"top_k":null})");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.headers.at("x-ignored-params"), "repeat_penalty, frobnicate");
}

TEST_F(GenerationTest, RejectsUnknownFieldsWithStrictParams) {
  options.strict_params = true;
  RawClient client(start());
  const RawResponse r = client.post("/v1/completions", R"({"prompt":"a","frobnicate":1})");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.json()["error"]["param"], "frobnicate");
}

TEST_F(GenerationTest, LogsTheErrorOfAStreamThatHasBegun) {
  options.log_requests = RequestLog::kErrors;
  engine.fail_after = 2;
  testing::internal::CaptureStderr();
  const uint16_t port = start();
  (void)RawClient(port).post("/v1/completions", R"({"prompt":"ab","stream":true})");
  server.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::ContainsRegex(
                       "WARNING .* POST /v1/completions 500 \\([0-9.]+ ms\\): the fake engine failed"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST_F(GenerationTest, ReportsEngineFailures) {
  engine.fail_after = 2;
  RawClient client(start());
  const RawResponse whole = client.post("/v1/completions", R"({"prompt":"abc"})");
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.json()["error"]["message"], "the fake engine failed");
  bool done = false;
  const auto chunks = events(client.post("/v1/completions", R"({"prompt":"abc","stream":true})").body, &done);
  EXPECT_TRUE(done);
  ASSERT_FALSE(chunks.empty());
  EXPECT_EQ(chunks.back()["error"]["message"], "the fake engine failed");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(GenerationTest, RunsNoPromptIfTheQueueIsFull) {
  engine.max_queued = 2;
  engine.hold();
  RawClient client(start());
  const RawResponse r = client.post("/v1/completions", R"({"prompt":["a","b","c"],"stream":true})");
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.headers.at("retry-after"), "1");
  EXPECT_EQ(engine.num_active(), 0);
}

TEST_F(GenerationTest, RespondsWith500IfSubmittingThrows) {
  engine.throw_at_submit = 0;
  const std::string_view body = R"({"prompt":["ab","cd","ef"],"max_tokens":3})";
  {
    RawClient client(start());
    EXPECT_EQ(client.post("/v1/completions", body).status, 500);
  }
  EXPECT_EQ(engine.num_active(), 0);
  RawClient client(server->port());
  EXPECT_EQ(client.post("/v1/completions", body).status, 200);
}

TEST_F(GenerationTest, SharesTheParametersOfAllPrompts) {
  engine.hold();
  RawClient client(start());
  client.send(post_text("/v1/completions", R"({"prompt":["a","b","c"],"max_tokens":3,"stop":["x","y"]})"));
  ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 3; }));
  const auto all = engine.active_sampling();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(all[0].same_as(all[1]) && all[1].same_as(all[2]));
  engine.release();
  EXPECT_EQ(client.response().status, 200);
}

TEST_F(GenerationTest, SendsNoKeepAliveCommentsWithAnIntervalOfZero) {
  options.keep_alive_s = 0.0;
  engine.hold();
  RawClient client(start());
  client.send(post_text("/v1/completions", R"({"prompt":"ab","max_tokens":2,"stream":true})"));
  ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  engine.release();
  EXPECT_EQ(client.response().body.find("keep-alive"), std::string::npos);
}

TEST_F(GenerationTest, CountsNoCharactersForAnAddedBosToken) {
  RawClient client(start());
  const RawResponse r =
      client.post("/v1/completions", R"({"prompt":"abc","max_tokens":1,"echo":true,"logprobs":0})");
  const Json logprobs = r.json()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["text_offset"], Json({0, 0, 1, 2, 3}));  // BOS, a, b, c, the generated token
}

TEST_F(GenerationTest, AbortsWhenTheClientDisconnects) {
  engine.hold();
  const uint16_t port = start();
  for (const std::string_view stream : {"true", "false"}) {
    const int64_t before = engine.num_aborted();
    RawClient client(port);
    client.send(
        post_text("/v1/completions", cat(R"({"prompt":["a","b"],"max_tokens":1000,"stream":)", stream, "}")));
    ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 2; }));
    client.close();
    EXPECT_TRUE(test::eventually([&] { return engine.num_active() == 0; })) << stream;
    EXPECT_EQ(engine.num_aborted(), before + 2);
  }
}

TEST_F(GenerationTest, AbortsWhenAPipeliningClientDisconnects) {
  engine.hold();
  RawClient client(start());
  client.send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":1000,"stream":true})") +
              std::string(1 << 20, 'x'));
  ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 1; }));
  client.close();
  EXPECT_TRUE(test::eventually([&] { return engine.num_active() == 0; }));
}

TEST_F(GenerationTest, AbortsWhenTheClientDisconnectsFromAStream) {
  engine.step_time = std::chrono::microseconds(1000);
  engine.info.max_model_len = 1 << 30;
  RawClient client(start());
  client.send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":1000000,"stream":true})"));
  ASSERT_FALSE(client.some().empty());
  ASSERT_FALSE(client.some().empty());
  client.close();
  EXPECT_TRUE(test::eventually([&] { return engine.num_active() == 0; }));
  EXPECT_EQ(engine.num_aborted(), 1);
}

TEST_F(GenerationTest, AbortsWhenTheClientStopsReading) {
  options.http.max_backlog_bytes = 100000;
  engine.info.max_model_len = 1 << 30;
  RawClient client(start());
  client.send(post_text("/v1/completions",
                        R"({"prompt":"a","max_tokens":100000,"stream":true,"n":20,"logprobs":20})"));
  EXPECT_TRUE(test::eventually([&] { return engine.num_aborted() == 1; }));
  EXPECT_TRUE(test::eventually([&] { return engine.num_active() == 0; }));
  EXPECT_EQ(RawClient(server->port()).get("/health").status, 200);
}

TEST_F(GenerationTest, SendsKeepAliveCommentsOnASilentStream) {
  options.keep_alive_s = 0.1;
  engine.hold();
  RawClient client(start());
  client.send(post_text("/v1/completions", R"({"prompt":"ab","max_tokens":2,"stream":true})"));
  // Each comment is a chunk of its own.
  std::string begin;
  const auto second_comment = [&] { return begin.find(": keep-alive", begin.find(": keep-alive") + 1); };
  while (second_comment() == std::string::npos) {
    const std::string more = client.some();
    ASSERT_FALSE(more.empty()) << begin;
    begin += more;
  }
  EXPECT_NE(begin.find(": keep-alive\n"), std::string::npos) << begin;
  EXPECT_EQ(begin.substr(begin.find("\r\n\r\n") + 4).find("\n\n"), std::string::npos)
      << "no empty line, which would end an event without data: " << begin;
  EXPECT_EQ(begin.find("data:"), std::string::npos) << begin;
  engine.release();
  std::string rest;
  while (rest.find("[DONE]") == std::string::npos) {
    const std::string more = client.some();
    ASSERT_FALSE(more.empty()) << rest;
    rest += more;
  }
  EXPECT_NE(rest.find("data: {"), rest.rfind("data: {")) << "two tokens: " << rest;
}

TEST_F(GenerationTest, ServesManyStreamsAtOnce) {
  engine.step_time = std::chrono::microseconds(50);
  const uint16_t port = start();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&, i] {
      RawClient client(port);
      for (int round = 0; round < 3; ++round) {
        const std::string prompt = cat("prompt ", i, " of round ", round);
        const int length = 20 + 7 * i;
        const RawResponse r =
            client.post("/v1/completions",
                        cat(R"({"prompt":")", prompt, R"(","stream":true,"max_tokens":)", length, "}"));
        std::string text;
        for (const Json& chunk : events(r.body)) text += chunk["choices"][0]["text"].get<std::string>();
        if (text == FakeEngine::continuation(prompt, 0, length)) ++good;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(good.load(), 96);
  EXPECT_EQ(engine.num_active(), 0);
}

TEST_F(GenerationTest, FinishesRunningRequestsOnShutdown) {
  engine.hold();
  const uint16_t port = start();
  RawClient running(port);
  running.send(post_text("/v1/completions", R"({"prompt":"ab","max_tokens":4,"stream":true})"));
  ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 1; }));
  RawClient other(port);
  EXPECT_EQ(other.get("/health").status, 200);
  bool clean = false;
  std::thread stopping([&] { clean = server->shutdown(); });
  ASSERT_TRUE(test::eventually([&] { return other.get("/health").status == 503; }));
  const RawResponse refused = RawClient(port).post("/v1/completions", R"({"prompt":"ab"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  engine.release();
  const RawResponse r = running.response();
  bool done = false;
  EXPECT_EQ(events(r.body, &done).back()["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(done);
  stopping.join();
  EXPECT_TRUE(clean);
  EXPECT_TRUE(other.at_end());
}

TEST_F(GenerationTest, AbortsSlowRequestsOnShutdown) {
  options.shutdown_timeout_s = 0.2;
  engine.hold();
  const uint16_t port = start();
  RawClient running(port);
  running.send(post_text("/v1/completions", R"({"prompt":"ab","max_tokens":4})"));
  ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 1; }));
  EXPECT_FALSE(server->shutdown());
  EXPECT_EQ(running.response().json()["choices"][0]["finish_reason"], "abort");
}

TEST_F(GenerationTest, StopEndsAWaitingShutdown) {
  options.shutdown_timeout_s = 1e6;
  engine.hold();
  const uint16_t port = start();
  RawClient running(port);
  running.send(post_text("/v1/completions", R"({"prompt":"ab","max_tokens":4})"));
  ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 1; }));
  RawClient other(port);
  ASSERT_EQ(other.get("/health").status, 200);
  std::thread stopping([&] { server->shutdown(); });
  EXPECT_TRUE(test::eventually([&] { return other.get("/health").status == 503; }));
  test::expect_end("stop", [&] { server->stop(); });
  test::expect_end("shutdown", [&] { stopping.join(); });
  EXPECT_TRUE(running.at_end());
}

}  // namespace
}  // namespace quire
