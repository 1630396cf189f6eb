// Tells the model from texts among the positional arguments [MODEL] [TEXT...].
#pragma once

#include <string>
#include <vector>

namespace quire::cli {

// Whether the text is the model: an existing path, a name on the hub (org/name), the name of a model in the
// cache or of the embedded model, or a path that looks like one (a GGUF file, or beginning with /, ./, ../ or
// ~/).
bool is_model_argument(const std::string& text);

// Whether a command takes a text without a model: never (quire run), only one of several words, so that a
// mistyped model is not a text (quire chat), or always (quire generate).
enum class TextOnly { kNo, kSentence, kYes };

// The parser takes the first positional argument for the model. Moves it to the texts if it is one. Throws
// UsageError for a word that is neither, and for several words without quotes.
void separate_model(const std::string& command, std::string& model, std::vector<std::string>& texts,
                    TextOnly text_only = TextOnly::kYes);

// Whether standard input is a pipe or a file, from which a text can be read.
bool has_piped_input();

// The texts as one, followed by that of a pipe: git diff | quire run MODEL "Explain this change".
std::string with_piped_text(const std::vector<std::string>& texts);

}  // namespace quire::cli
