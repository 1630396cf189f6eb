// Pooling requests over real sockets: the prompts that the engine receives, and the responses. The fake
// engine returns {number of tokens, last token, start of the second text}.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/server/server_fixture.h"

namespace quire {
namespace {

using testing::HasSubstr;

class PoolingRoutes : public ServerTest {
 protected:
  Json ask(std::string_view path, std::string_view body) {
    if (!server) start();
    const RawResponse r = RawClient(server->port()).post(path, body);
    EXPECT_EQ(r.status, 200) << r.body;
    return r.json();
  }
  std::string refused(std::string_view path, std::string_view body) {
    if (!server) start();
    const RawResponse r = RawClient(server->port()).post(path, body);
    EXPECT_EQ(r.status, 400) << r.body;
    return r.json()["error"]["message"];
  }
  void make_scorer(std::vector<std::string> labels) {
    engine.info.task = ModelTask::kScore;
    engine.info.labels = std::move(labels);
  }
};

TEST_F(PoolingRoutes, ReturnsEmbeddingsInOrder) {
  engine.info.task = ModelTask::kEmbed;
  for (const char* path : {"/v1/embeddings", "/embeddings"}) {
    const Json j = ask(path, R"({"model":"fake","input":["abc","z"]})");
    EXPECT_EQ(j["object"], "list");
    ASSERT_EQ(j["data"].size(), 2U);
    EXPECT_EQ(j["data"][0]["object"], "embedding");
    EXPECT_EQ(j["data"][0]["embedding"], Json({4, 'c', 0}));
    EXPECT_EQ(j["data"][1]["index"], 1);
    EXPECT_EQ(j["data"][1]["embedding"], Json({2, 'z', 0}));
    EXPECT_EQ(j["usage"]["prompt_tokens"], 6);
    EXPECT_EQ(j["usage"]["total_tokens"], 6);
  }
  EXPECT_EQ(ask("/v1/embeddings", R"({"input":[7,8]})")["data"][0]["embedding"], Json({2, 8, 0}));
  EXPECT_EQ(ask("/pooling", R"({"input":"ab"})")["data"][0]["data"], Json({3, 'b', 0}));
}

TEST_F(PoolingRoutes, EncodesFloatsAsBase64) {
  engine.info.task = ModelTask::kEmbed;
  // 2.0F, 97.0F, 0.0F.
  EXPECT_EQ(ask("/v1/embeddings", R"({"input":"a","encoding_format":"base64"})")["data"][0]["embedding"],
            "AAAAQAAAwkIAAAAA");
}

TEST_F(PoolingRoutes, AppliesTheChatTemplateToMessages) {
  engine.info.task = ModelTask::kEmbed;
  const Json j = ask("/v1/embeddings", R"({"messages":[{"role":"user","content":"hi"}]})");
  // "user:hi;", without a prefix and without an assistant turn.
  EXPECT_EQ(j["data"][0]["embedding"], Json({8, ';', 0}));
  EXPECT_FALSE(engine.last_chat().add_generation_prompt);
  const Json asked =
      ask("/v1/embeddings", R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":true})");
  EXPECT_EQ(asked["data"][0]["embedding"], Json({18, ':', 0}));
  EXPECT_THAT(refused("/v1/embeddings", R"({"messages":[{"role":"refused","content":"hi"}]})"),
              HasSubstr("refused by the template"));
}

TEST_F(PoolingRoutes, RejectsMessagesWithoutAChatTemplate) {
  engine.info.task = ModelTask::kEmbed;
  engine.chat_template = false;
  EXPECT_THAT(refused("/v1/embeddings", R"({"messages":[{"role":"user","content":"hi"}]})"),
              HasSubstr("send `input`"));
}

TEST_F(PoolingRoutes, SortsRerankedDocumentsByScore) {
  make_scorer({"LABEL_0"});
  const char* body = R"({"query":"q","documents":["a","abc","ab"]})";
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank"}) {
    const Json results = ask(path, body)["results"];
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(results[0]["index"], 1);
    EXPECT_EQ(results[0]["relevance_score"], 5);  // [BOS] q a b c
    EXPECT_EQ(results[0]["document"]["text"], "abc");
    EXPECT_EQ(results[2]["index"], 0);
  }
  EXPECT_EQ(engine.last_request().pooling->second_text, 2);
  const Json best = ask(
      "/rerank", R"({"query":"q","documents":["a","abc"],"top_n":1,"return_documents":false})")["results"];
  ASSERT_EQ(best.size(), 1U);
  EXPECT_FALSE(best[0].contains("document"));
}

TEST_F(PoolingRoutes, ReturnsScoresOfPairsInOrder) {
  make_scorer({"LABEL_0"});
  const Json data = ask("/score", R"({"text_1":"q","text_2":["abc","a"]})")["data"];
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data[0]["score"], 5);
  EXPECT_EQ(data[1]["score"], 3);
}

TEST_F(PoolingRoutes, TruncatesDocumentsOfPairs) {
  make_scorer({"LABEL_0"});
  const auto tokens = [&](const char* fields) {
    const Json data = ask("/score", cat(R"({"text_1":"q","text_2":"abc",)", fields, "}"))["data"];
    EXPECT_EQ(data.size(), 1U);
    return engine.last_request().prompt_token_ids;
  };
  const TokenId bos = tokens(R"("truncate_prompt_tokens":-1)").front();
  EXPECT_EQ(tokens(R"("truncate_prompt_tokens":4)"), (std::vector<TokenId>{bos, 'q', 'a', 'b'}));
  EXPECT_EQ(tokens(R"("truncate_prompt_tokens":4,"truncation_side":"right")"),
            (std::vector<TokenId>{bos, 'q', 'a', 'b'}));
  EXPECT_EQ(tokens(R"("truncate_prompt_tokens":4,"truncation_side":"left")"),
            (std::vector<TokenId>{bos, 'q', 'b', 'c'}));
}

TEST_F(PoolingRoutes, ComparesEmbeddingsIfTheModelHasNoScores) {
  engine.info.task = ModelTask::kEmbed;
  const Json data = ask("/score", R"({"text_1":"ab","text_2":["ab","zzzzzzzz"]})")["data"];
  EXPECT_NEAR(data[0]["score"].get<double>(), 1.0, 1e-6);
  EXPECT_LT(data[1]["score"].get<double>(), 0.9999);
}

TEST_F(PoolingRoutes, ReturnsLabelNames) {
  make_scorer({"long", "letter", "second"});
  const Json data = ask("/classify", R"({"input":["abc"]})")["data"];
  EXPECT_EQ(data[0]["label"], "letter");
  EXPECT_EQ(data[0]["probs"], Json({4, 'c', 0}));
  EXPECT_EQ(data[0]["num_classes"], 3);
}

TEST_F(PoolingRoutes, RejectsModelsOfOtherTasks) {
  EXPECT_THAT(refused("/v1/embeddings", R"({"input":"a"})"), HasSubstr("fake"));
  EXPECT_THAT(refused("/rerank", R"({"query":"q","documents":["a"]})"), HasSubstr("fake"));
  EXPECT_THAT(refused("/classify", R"({"input":"a"})"), HasSubstr("fake"));
}

TEST_F(PoolingRoutes, AbortsWhenTheClientDisconnects) {
  engine.info.task = ModelTask::kEmbed;
  engine.hold();
  start();
  {
    RawClient client(server->port());
    client.send(post_text("/v1/embeddings", R"({"input":["a","b"]})"));
    ASSERT_TRUE(test::eventually([&] { return engine.num_active() == 2; }));
  }
  EXPECT_TRUE(test::eventually([&] { return engine.num_aborted() == 2; }));
  engine.release();
}

}  // namespace
}  // namespace quire
