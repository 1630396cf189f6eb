// Measures constrained output: compiling grammars, and masks along random outputs.
//
//   bench_grammar TOKENIZER_DIR [STEPS]
//
// Prints one line per grammar: compile time, then the time of a mask over random outputs (p50, p99, longest)
// from a new constraint. "first" is a second constraint with the same grammar, after the tokenizer's own
// caches are filled. Times are processor time of the thread.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "grammar/compile.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using namespace quire;           // NOLINT: a program, not a library
using namespace quire::grammar;  // NOLINT

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Regular byte_range(int first, int last) {
  ByteSet set;
  for (int byte = first; byte <= last; ++byte) set.set(static_cast<size_t>(byte));
  return bytes(set);
}

Regular json_character() {
  const CharacterRange excluded[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  const Regular hex = any_of({byte_range('0', '9'), byte_range('a', 'f'), byte_range('A', 'F')});
  ByteSet simple;
  for (const char c : std::string("\"\\/bfnrt")) simple.set(static_cast<uint8_t>(c));
  const Regular d = any_of({text("d"), text("D")});
  const Regular not_d = any_of({byte_range('0', '9'), byte_range('a', 'c'), byte_range('A', 'C'), text("e"),
                                text("f"), text("E"), text("F")});
  const Regular low = concat({d, byte_range('0', '7'), hex, hex});
  const Regular high =
      concat({d, any_of({text("8"), text("9"), text("a"), text("b"), text("A"), text("B")}), hex, hex});
  const Regular last = concat({d, any_of({byte_range('c', 'f'), byte_range('C', 'F')}), hex, hex});
  const Regular escape =
      any_of({bytes(simple), concat({text("u"), any_of({concat({not_d, hex, hex, hex}), low,
                                                        concat({high, text("\\u"), last})})})});
  return any_of({characters_except(excluded), concat({text("\\"), escape})});
}

Regular json_string(uint32_t max) {
  return concat({text("\""), repeat(json_character(), 0, max), text("\"")});
}

Regular json_number() {
  const Regular digit = byte_range('0', '9');
  return concat({optional(text("-")),
                 any_of({text("0"), concat({byte_range('1', '9'), repeat(digit, 0, 63)})}),
                 optional(concat({text("."), repeat(digit, 1, 64)})),
                 optional(concat({any_of({text("e"), text("E")}), optional(any_of({text("+"), text("-")})),
                                  repeat(digit, 1, 3)}))});
}

Regular white_space() {
  return any_of({empty_text(), text(" "), concat({text("\n"), repeat(text(" "), 0, 64)})});
}

// Any JSON value.
Symbol add_json(Grammar& grammar) {
  const Symbol ws = add_lexeme(grammar, white_space());
  const Symbol string = add_lexeme(grammar, json_string(RegularNode::kUnlimited));
  const Symbol number = add_lexeme(grammar, json_number());
  const auto fixed = [&](const char* value) { return add_lexeme(grammar, text(value)); };
  const Symbol open = fixed("{"), close = fixed("}"), colon = fixed(":"), comma = fixed(",");
  const Symbol open_list = fixed("["), close_list = fixed("]");
  const Symbol value = add_rule(grammar, "value"), members = add_rule(grammar, "members");
  const Symbol items = add_rule(grammar, "items"), member = add_rule(grammar, "member");
  const auto rule = [&](Symbol symbol) -> auto& {
    return grammar.rules[static_cast<size_t>(symbol.id)].alternatives;
  };
  rule(value) = {{string},
                 {number},
                 {fixed("true")},
                 {fixed("false")},
                 {fixed("null")},
                 {open, ws, close},
                 {open, ws, members, ws, close},
                 {open_list, ws, close_list},
                 {open_list, ws, items, ws, close_list}};
  rule(member) = {{string, ws, colon, ws, value}};
  rule(members) = {{member}, {members, ws, comma, ws, member}};
  rule(items) = {{value}, {items, ws, comma, ws, value}};
  return value;
}

Grammar any_json() {
  Grammar grammar;
  grammar.start = add_json(grammar).id;
  return grammar;
}

// An object with required properties of several types.
Grammar object_of(int properties) {
  Grammar grammar;
  const Symbol any = add_json(grammar);
  const Symbol ws = add_lexeme(grammar, white_space());
  const std::vector<Symbol> values = {add_lexeme(grammar, json_string(RegularNode::kUnlimited)),
                                      add_lexeme(grammar, json_number()),
                                      add_lexeme(grammar, json_string(50)),
                                      add_lexeme(grammar, any_of({text("\"red\""), text("\"green\"")})), any};
  const Symbol root = add_rule(grammar, "root");
  std::vector<Symbol> all = {add_lexeme(grammar, text("{"))};
  for (int i = 0; i < properties; ++i) {
    const std::string key = "\"property_" + std::to_string(i) + "\":";
    all.push_back(ws);
    all.push_back(add_lexeme(grammar, text(key)));
    all.push_back(ws);
    all.push_back(values[static_cast<size_t>(i) % values.size()]);
    all.push_back(ws);
    all.push_back(add_lexeme(grammar, text(i + 1 < properties ? "," : "}")));
  }
  grammar.rules[static_cast<size_t>(root.id)].alternatives = {all};
  grammar.start = root.id;
  return grammar;
}

// An object with any of these keys, or others with any value, in any order.
Grammar open_object(int properties) {
  Grammar grammar;
  const Symbol any = add_json(grammar);
  const Symbol ws = add_lexeme(grammar, white_space());
  std::vector<Regular> keys;
  for (int i = 0; i < properties; ++i) keys.push_back(text("\"property_" + std::to_string(i) + "\""));
  const Symbol other = add_lexeme(grammar, minus(json_string(RegularNode::kUnlimited), any_of(keys)));
  const Symbol known = add_lexeme(grammar, any_of(keys));
  const auto fixed = [&](const char* value) { return add_lexeme(grammar, text(value)); };
  const Symbol number = add_lexeme(grammar, json_number()), colon = fixed(":"), comma = fixed(",");
  const Symbol member = add_rule(grammar, "member"), members = add_rule(grammar, "members");
  const Symbol root = add_rule(grammar, "root");
  grammar.rules[static_cast<size_t>(member.id)].alternatives = {{known, ws, colon, ws, number},
                                                                {other, ws, colon, ws, any}};
  grammar.rules[static_cast<size_t>(members.id)].alternatives = {{member}, {members, ws, comma, ws, member}};
  grammar.rules[static_cast<size_t>(root.id)].alternatives = {{fixed("{"), ws, members, ws, fixed("}")}};
  grammar.start = root.id;
  return grammar;
}

Grammar lexeme_only(Regular regular) {
  Grammar grammar;
  const Symbol symbol = add_lexeme(grammar, std::move(regular));
  grammar.start = add_rule(grammar, "root").id;
  grammar.rules[0].alternatives = {{symbol}};
  return grammar;
}

Grammar email() {
  const Regular word = any_of({byte_range('a', 'z'), byte_range('A', 'Z'), byte_range('0', '9'), text("_")});
  const Regular part = concat({word, repeat(any_of({word, text("-"), text(".")}), 0, 63)});
  return lexeme_only(concat({part, text("@"), part, text("."), repeat(word, 2, 10)}));
}

Grammar reasoning() {
  const Regular all = repeat(any_character(), 0);
  const Regular thought = minus(all, concat({all, text("</think>"), all}));
  Grammar grammar;
  const Symbol before = add_lexeme(grammar, thought), marker = add_lexeme(grammar, text("</think>"));
  const Symbol value = add_json(grammar);
  const Symbol root = add_rule(grammar, "root");
  grammar.rules[static_cast<size_t>(root.id)].alternatives = {{before, marker, value}};
  grammar.start = root.id;
  return grammar;
}

struct Times {
  std::vector<double> all;
  double at(double fraction) {
    std::sort(all.begin(), all.end());
    return all.empty() ? 0 : all[static_cast<size_t>(fraction * static_cast<double>(all.size() - 1))] * 1e6;
  }
};

// Accepts random allowed tokens, and starts again after the end.
Times measure(const OutputConstraint& constraint, const TokenTable& tokens, size_t steps, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> mask((tokens.vocab_size() + 31) / 32);
  Times times;
  auto state = constraint.start();
  size_t length = 0;
  std::vector<TokenId> allowed;
  for (size_t i = 0; i < steps; ++i) {
    const double begin = now();
    const Status status = state->fill(mask);
    times.all.push_back(now() - begin);
    if (!status.ok()) std::printf("  %s\n", status.failure().message.c_str());
    allowed.clear();
    for (size_t t = 0; t < tokens.vocab_size(); ++t) {
      if ((mask[t / 32] >> (t % 32)) & 1) allowed.push_back(static_cast<TokenId>(t));
    }
    // Closing quotes are rare among all tokens, so a part of the tokens comes from the shortest ones.
    TokenId token = allowed.empty() ? -1 : allowed[random() % allowed.size()];
    if (!allowed.empty() && random() % 3 == 0)
      token = allowed[random() % std::min<size_t>(allowed.size(), 64)];
    if (++length > 400 || token < 0 || tokens.is_end(token) || !state->accept(token)) {
      state = constraint.start();
      length = 0;
    }
  }
  return times;
}

void report(const char* name, const Grammar& grammar, const std::shared_ptr<const TokenTable>& tokens,
            size_t steps) {
  std::vector<std::pair<const char*, uint32_t>> runs = {{"new", 1}, {"first", 2}};
  for (const auto& [run, seed] : runs) {
    const double begin = now();
    const auto compiled = compile(grammar, tokens);
    const double compile_ms = (now() - begin) * 1e3;
    if (!compiled.ok()) {
      std::printf("%-22s %s\n", name, compiled.failure().message.c_str());
      return;
    }
    Times times = measure(*compiled.value(), *tokens, steps, seed);
    std::printf("%-22s %-5s compile %8.2f ms   mask p50 %8.1f  p99 %8.1f  longest %8.1f us   %6.1f MB\n",
                name, run, compile_ms, times.at(0.5), times.at(0.99), times.at(1),
                static_cast<double>(compiled.value()->memory()) * 1e-6);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_grammar TOKENIZER_DIR [STEPS]\n");
    return 1;
  }
  const size_t steps = argc > 2 ? std::stoul(argv[2]) : 5'000;
  const auto tokenizer = Tokenizer::load(argv[1]);
  std::vector<TokenId> ends;
  if (tokenizer->eos_id()) ends.push_back(*tokenizer->eos_id());
  double begin = now();
  const auto tokens = TokenTable::from_tokenizer(*tokenizer, tokenizer->vocab_size(), ends);
  std::printf("token table: %zu tokens, %zu nodes, %.1f MB, %.1f ms\n", tokens->vocab_size(),
              tokens->nodes().size(), static_cast<double>(tokens->memory()) * 1e-6, (now() - begin) * 1e3);
  report("any JSON", any_json(), tokens, steps);
  report("3 properties", object_of(3), tokens, steps);
  report("24 properties", object_of(24), tokens, steps);
  report("200 properties", object_of(200), tokens, steps);
  report("24 of any properties", open_object(24), tokens, steps);
  report("200 of any properties", open_object(200), tokens, steps);
  report("string up to 4096", lexeme_only(json_string(4096)), tokens, steps);
  report("e-mail", email(), tokens, steps);
  report("reasoning, then JSON", reasoning(), tokens, steps);
  report("(a{1,1000}){1,1000}", lexeme_only(repeat(repeat(text("a"), 1, 1000), 1, 1000)), tokens, steps);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
