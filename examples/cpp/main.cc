// Generates stories in one batch, then streams a chat response. The optional argument is a model directory.
#include <quire/llm.h>

#include <iostream>

int main(int argc, char** argv) {
  try {
    quire::LLM llm({.model = argc > 1 ? argv[1] : ""});
    std::cout << llm.model().name << " on " << llm.model().isa << "\n";

    const auto outputs =
        llm.generate({"Once upon a time", "The little dog"}, {.max_tokens = 48, .temperature = 0});
    for (const auto& output : outputs) std::cout << "- " << output.prompt << output.outputs[0].text << "\n";

    std::cout << "- Hello!\n- ";
    auto stream = llm.chat_stream({{"user", "Hello!"}}, {.max_tokens = 32, .temperature = 0});
    while (const auto piece = stream.next()) std::cout << *piece << std::flush;
    std::cout << "\n";
  } catch (const quire::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
