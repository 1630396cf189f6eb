#include "cli/chat/conversation_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/strings.h"
#include "cli/chat/attachments.h"
#include "text/chat/request_json.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

std::string read_conversation_file(const std::string& path) {
  const std::string name = expand_home(path);
  std::error_code ignored;
  const fs::file_status status = fs::status(name, ignored);
  if (!fs::exists(status)) throw Error(cat("cannot read ", path, ": no such file"));
  if (!fs::is_regular_file(status)) throw Error(cat("cannot read ", path, ": not a regular file"));
  const auto size = fs::file_size(name, ignored);
  if (!ignored && size > kMaxConversationBytes)
    throw Error(cat("cannot read ", path, ": the file is larger than ", format_bytes(kMaxConversationBytes)));
  std::ifstream file(name, std::ios::binary);
  if (!file) throw Error(cat("cannot read ", path, ": ", std::strerror(errno)));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

ChatMessage read_saved_message(const Json& message, const std::string& place) {
  if (!message.is_object()) throw Error(cat(place, " must be an object, not ", json_type_name(message)));
  ChatMessage result;
  for (const auto& [key, value] : message.items()) {
    std::string* const field = key == "role" ? &result.role : key == "content" ? &result.content : nullptr;
    if (field == nullptr) {
      throw Error(cat(place, " has the field '", key.substr(0, 80),
                      "'; a chat in the terminal has only role and content"));
    }
    if (!value.is_string())
      throw Error(cat(place, ".", key, " must be a string, not ", json_type_name(value)));
    *field = value.get<std::string>();
  }
  if (result.role.empty()) throw Error(cat(place, " has no role"));
  return result;
}

// Throws Error with the name of the file, which must exist.
SavedConversation parse_conversation(const std::string& path, const std::string& text) {
  const Json root = require_json(text, path);
  const Json* messages = root.is_array() ? &root : nullptr;
  if (root.is_object() && root.contains("messages")) messages = &root.at("messages");
  SavedConversation conversation;
  if (messages != nullptr && messages->is_array()) {
    for (size_t i = 0; i < messages->size(); ++i)
      conversation.messages.push_back(read_saved_message((*messages)[i], cat(path, ": messages[", i, "]")));
  } else if (root.is_object() && root.contains("prompt") && root.at("prompt").is_string()) {
    conversation.text = root.at("prompt").get<std::string>();
  } else {
    throw Error(cat(path, ": not a saved conversation (an object with messages or a prompt)"));
  }
  return conversation;
}

std::string conversation_json(const SavedConversation& conversation) {
  Json object = Json::object();
  if (conversation.messages.empty()) {
    object["prompt"] = conversation.text;
  } else {
    for (const ChatMessage& message : conversation.messages)
      object["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A file that `/save` did not write stays.
void check_replaceable(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(expand_home(path), ignored)) return;
  try {
    (void)load_conversation(path);
  } catch (const Error&) {
    throw Error(cat("cannot write ", path, ": the file exists and is not a saved conversation"));
  }
}

}  // namespace

SavedConversation load_conversation(const std::string& path) {
  return parse_conversation(path, read_conversation_file(path));
}

void save_conversation(const std::string& path, const SavedConversation& conversation) {
  check_replaceable(path);
  const std::string name = expand_home(path);
  const std::string temporary = cat(name, ".", getpid(), ".tmp");
  const auto fail = [&](int error) {
    std::remove(temporary.c_str());
    throw Error(cat("cannot write ", path, ": ", std::strerror(error)));
  };
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  if (!file) fail(errno);
  file << conversation_json(conversation);
  file.close();
  if (!file) fail(errno != 0 ? errno : EIO);
  std::error_code error;
  fs::permissions(temporary, fs::perms::owner_read | fs::perms::owner_write, error);
  fs::rename(temporary, name, error);
  if (error) fail(error.value());
}

}  // namespace quire::cli
