#include "base/fingerprint.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace quire {
namespace {

std::string of(const std::vector<std::string_view>& parts) {
  Fingerprint all;
  for (const std::string_view part : parts) all.add(part);
  return all.text();
}

TEST(Fingerprint, DependsOnTheParts) {
  EXPECT_EQ(of({"a", "bc"}), of({"a", "bc"}));
  EXPECT_EQ(of({}).size(), Fingerprint::kDigits);
  EXPECT_EQ(of({}).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Fingerprint, SeparatesParts) {
  EXPECT_NE(of({"a", "bc"}), of({"ab", "c"}));
  EXPECT_NE(of({"a", ""}), of({"", "a"}));
  EXPECT_NE(of({""}), of({}));
  EXPECT_NE(of({"a", "b"}), of({"b", "a"}));
}

TEST(Fingerprint, ContinuesAfterText) {
  Fingerprint all;
  all.add(int64_t{1});
  const std::string one = all.text();
  EXPECT_EQ(all.text(), one);
  all.add(int64_t{2});
  EXPECT_NE(all.text(), one);
}

}  // namespace
}  // namespace quire
