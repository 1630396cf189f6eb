// The formats of JSON Schema that are enforced, as regular languages of contents.
#include <array>
#include <string_view>

#include "grammar/json_text.h"
#include "grammar/regex.h"
#include "grammar/schema_meaning.h"

namespace quire::grammar {
namespace {

// Building blocks; in a format, <name> stands for the block.
struct Pattern {
  std::string_view name;
  std::string_view pattern;
};
constexpr std::array kBlocks = {
    Pattern{
        "date",
        "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
        "02-(?:0[1-9]|1[0-9]|2[0-8]))|"
        "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"},
    Pattern{"time",
            "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
            "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))"},
    Pattern{"label", "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?)"},
    Pattern{"octet", "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"},
    Pattern{"h16", "(?:[0-9A-Fa-f]{1,4})"},
    Pattern{"atom", "(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)"},
    Pattern{"pchar", "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"},
    Pattern{"reg", "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"},
    Pattern{"token", "(?:[^~/]|~[01])"},
};
constexpr std::array kFormats = {
    Pattern{"date", "<date>"},
    Pattern{"time", "<time>"},
    Pattern{"date-time", "<date>[Tt]<time>"},
    Pattern{"duration",
            "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
            "[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
            "[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
            "[0-9]{1,9}S))"},
    Pattern{"email", "<atom>(?:\\.<atom>)*@<label>(?:\\.<label>){0,7}"},
    Pattern{"hostname", "<label>(?:\\.<label>){0,7}"},
    Pattern{"ipv4", "<octet>(?:\\.<octet>){3}"},
    Pattern{"ipv6",
            "(?:<h16>:){7}<h16>|(?:<h16>:){1,7}:|(?:<h16>:){1,6}:<h16>|(?:<h16>:){1,5}(?::<h16>){1,2}|"
            "(?:<h16>:){1,4}(?::<h16>){1,3}|(?:<h16>:){1,3}(?::<h16>){1,4}|(?:<h16>:){1,2}(?::<h16>){1,5}|"
            "<h16>:(?::<h16>){1,6}|:(?:(?::<h16>){1,7}|:)"},
    Pattern{"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    Pattern{"uri",
            "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:(?:<reg>|:)*@)?<reg>*(?::[0-9]*)?(?:/<pchar>*)*|"
            "/(?:<pchar>+(?:/<pchar>*)*)?|<pchar>+(?:/<pchar>*)*|)(?:\\?(?:<pchar>|[/?])*)?"
            "(?:#(?:<pchar>|[/?])*)?"},
    Pattern{"json-pointer", "(?:/<token>*)*"},
    Pattern{"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/<token>*)*)"},
};

std::string expanded(std::string_view pattern) {
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const size_t end = pattern[i] == '<' ? pattern.find('>', i) : std::string_view::npos;
    const std::string_view name = end == std::string_view::npos ? "" : pattern.substr(i + 1, end - i - 1);
    bool found = false;
    for (const Pattern& block : kBlocks) {
      if (block.name != name) continue;
      result += block.pattern;
      found = true;
    }
    if (found) {
      i = end;
    } else {
      result += pattern[i];
    }
  }
  return result;
}

}  // namespace

std::optional<Regular> format_content(std::string_view name) {
  static const std::array<std::optional<Regular>, kFormats.size()> languages = [] {
    std::array<std::optional<Regular>, kFormats.size()> built;
    for (size_t i = 0; i < kFormats.size(); ++i) {
      Result<Regular> language = parse_regex(expanded(kFormats[i].pattern));
      if (language) built[i] = *language;
    }
    return built;
  }();
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].name == name) return languages[i];
  }
  return std::nullopt;
}

}  // namespace quire::grammar
