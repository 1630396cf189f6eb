#include "hub/digest.h"

#include <gtest/gtest.h>

namespace quire::hub {
namespace {

TEST(Digest, ComputesSha256) {
  Digest digest = Digest::sha256();
  digest.update("a");
  digest.update("bc");
  EXPECT_EQ(digest.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, ComputesTheHashOfAGitBlob) {
  Digest digest = Digest::git_blob(6);
  digest.update("hello\n");
  EXPECT_EQ(digest.finish(), "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
}

TEST(Digest, IsChosenByTheLengthOfTheEtag) {
  EXPECT_EQ(Digest::for_etag(std::string(64, 'a'), 0).finish(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Digest::for_etag(std::string(40, 'a'), 0).finish(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(Etag, IsAHashOrNothing) {
  const std::string sha256(64, 'b');
  const std::string git(40, '1');
  EXPECT_EQ(hash_of_etag("\"" + sha256 + "\""), sha256);
  EXPECT_EQ(hash_of_etag("W/\"" + git + "\""), git);
  EXPECT_EQ(hash_of_etag(git), git);
  for (const std::string& etag :
       {std::string(), std::string("\"\""), std::string("\"../../../etc/passwd\""), std::string(40, 'A'),
        std::string(40, 'g'), std::string(41, 'a'), std::string("\"") + git, git.substr(1) + "/"}) {
    EXPECT_EQ(hash_of_etag(etag), "") << etag;
  }
}

}  // namespace
}  // namespace quire::hub
