// Files that a message of a conversation refers to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

struct Attachment {
  std::string path;
  std::string content;  // valid UTF-8
};

inline constexpr size_t kMaxAttachmentBytes = size_t{1} << 20;

// Replaces a leading "~/" by the home directory.
std::string expand_home(const std::string& path);

// Reads a text file. Throws Error with the path if it cannot be read, is larger than kMaxAttachmentBytes, or
// is not UTF-8 text.
Attachment read_attachment(const std::string& path);

// Reads the files that a message mentions as @PATH or @"PATH WITH SPACES" at the start of a word. A mention
// is text if no such file exists; punctuation after a path is not part of it. Throws Error like
// read_attachment().
std::vector<Attachment> read_mentions(std::string_view message);

// Returns the message followed by the content of each file in a fenced code block.
std::string with_attachments(const std::string& message, const std::vector<Attachment>& files);

// The position of the path in a mention that ends at the end of `text`, for completion; npos if there is
// none.
size_t mention_at_end(std::string_view text);

// Paths that start with `prefix`; those of directories end with a slash. Hidden files are left out unless
// the prefix names one.
std::vector<std::string> complete_path(const std::string& prefix);

}  // namespace quire::cli
