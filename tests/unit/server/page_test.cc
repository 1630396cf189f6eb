// The web page's files and its endpoints.
#include <gtest/gtest.h>

#include <set>

#include "server/internal/engine_view_json.h"
#include "server/internal/page_files.h"
#include "unit/server/server_fixture.h"

namespace quire {
namespace {

using PageTest = ServerTest;

TEST_F(PageTest, ServesEveryLinkedFile) {
  RawClient client(start());
  std::set<std::string_view> names;
  for (const PageFile& file : page_files()) {
    names.insert(file.name);
    const std::string path = file.name == "index.html" ? "/" : "/ui/" + std::string(file.name);
    const RawResponse response = client.get(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(response.body, file.bytes) << path;
    EXPECT_EQ(response.headers.at("content-type"), page_content_type(file.name)) << path;
    EXPECT_NE(response.headers.at("content-type"), "application/octet-stream") << path;
  }
  EXPECT_TRUE(names.contains("index.html"));
  EXPECT_TRUE(names.contains("main.js"));
}

TEST_F(PageTest, AnswersAnUnchangedFileWithoutABody) {
  RawClient client(start());
  const std::string etag = client.get("/").headers.at("etag");
  const RawResponse again = client.get("/", "If-None-Match: W/" + etag + "\r\n");
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_FALSE(again.headers.contains("content-length"));
  EXPECT_EQ(client.get("/", "If-None-Match: \"0\"\r\n").status, 200);
}

TEST_F(PageTest, FilesNeedNoKeyAndDataDoes) {
  options.access.api_keys = {"secret"};
  RawClient client(start());
  EXPECT_EQ(client.get("/").status, 200);
  EXPECT_EQ(client.get("/internal/model").status, 401);
  EXPECT_EQ(client.get("/internal/engine").status, 401);
  EXPECT_EQ(client.get("/internal/engine", "Authorization: Bearer secret\r\n").status, 200);
}

TEST_F(PageTest, CanBeTurnedOff) {
  options.serve_page = false;
  RawClient client(start());
  for (const char* path : {"/", "/ui/main.js", "/internal/model", "/internal/engine"})
    EXPECT_EQ(client.get(path).status, 404) << path;
}

TEST_F(PageTest, ClientsShareASnapshot) {
  const uint16_t port = start();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(RawClient(port).get("/internal/engine").status, 200);
  EXPECT_LE(engine.num_views, 2);
}

TEST(EngineViewJson, WritesTimesRelativeToTheSnapshot) {
  EngineView view;
  view.time = 100.0;
  LiveRequest& request = view.requests.emplace_back();
  request.scheduled.id = 7;
  request.scheduled.phase = RequestPhase::kDecode;
  request.progress.times = {98.5, 99.0, 0.0, 0.0};
  request.history.chunks = {{99.0, 99.25, 512}};
  request.history.pauses = {{99.5, 0.0}};
  const Json json = Json::parse(engine_view_json(view));
  const Json& written = json["requests"][0];
  EXPECT_EQ(written["id"], 7);
  EXPECT_EQ(written["phase"], "decode");
  EXPECT_EQ(written["arrival"], -1500);
  EXPECT_EQ(written["scheduled"], -1000);
  EXPECT_TRUE(written["first"].is_null());
  EXPECT_EQ(written["chunks"], Json::parse("[[-1000,-750,512]]"));
  EXPECT_EQ(written["pauses"], Json::parse("[[-500,null]]"));
}

TEST(EngineViewJson, EncodesRunsOfEqualCells) {
  EngineView view;
  view.device.num_blocks = 5;
  view.device.cells = {{0, 1, 0, 2, 8}, {0, 1, 0, 2, 8}, {-1, 0, 1, 0, 0}, {}, {}};
  const Json json = Json::parse(engine_view_json(view));
  EXPECT_EQ(json["device"]["cells"], Json::parse("[2,0,2,1,0,8, 1,-1,0,0,1,0, 2,-1,0,0,0,0]"));
}

TEST(EngineViewJson, EncodesRunsOfNeighboringOccupiedCells) {
  EngineView view;
  view.device.blocks_per_placed = 2;
  const BlockCell used{0, 2, 0, 1, 32};
  view.device.placed = {{3, used}, {4, used}, {6, used}, {7, {-1, 0, 1, 0, 0}}};
  const Json json = Json::parse(engine_view_json(view));
  EXPECT_EQ(json["device"]["blocks_per_placed"], 2);
  EXPECT_EQ(json["device"]["placed"], Json::parse("[3,2,0,1,2,0,32, 6,1,0,1,2,0,32, 7,1,-1,0,0,1,0]"));
}

}  // namespace
}  // namespace quire
