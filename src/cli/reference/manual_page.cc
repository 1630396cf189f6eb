// The manual page quire(1), in the man macros of groff.
#include <algorithm>

#include "base/strings.h"
#include "cli/reference/command_reference.h"

namespace quire::cli {
namespace {

constexpr const char* kTail = R"(.SH ENVIRONMENT
.TP
.B QUIRE_API_KEY
Default of \-\-api\-key of quire serve and quire top.
.TP
.B OPENAI_API_KEY
Default of \-\-api\-key of quire bench serve.
.TP
.B QUIRE_CPU_ISA
Instruction set to use instead of the best one: generic, avx2, avx512, avx512_vnni, avx512_bf16 or amx.
.TP
.B QUIRE_NOW
Time that chat templates see, for example 2026\-01\-15T12:00:00.
.TP
.B HF_HOME\fR, \fBHF_HUB_CACHE\fR, \fBHUGGINGFACE_HUB_CACHE\fR, \fBXDG_CACHE_HOME
Location of the cache of downloaded models, as for huggingface_hub.
.TP
.B HF_TOKEN\fR, \fBHUGGING_FACE_HUB_TOKEN\fR, \fBHF_TOKEN_PATH\fR, \fBHF_HUB_DISABLE_IMPLICIT_TOKEN
Token for gated and private models.
.TP
.B HF_ENDPOINT
Address of the hub (default: https://huggingface.co).
.TP
.B HF_HUB_OFFLINE\fR, \fBTRANSFORMERS_OFFLINE
If 1, nothing is downloaded.
.TP
.B HF_HUB_DOWNLOAD_TIMEOUT
Seconds without data after which a download is tried again.
.TP
.B http_proxy\fR, \fBhttps_proxy\fR, \fBall_proxy\fR, \fBno_proxy
Proxies for downloads, also in upper case.
.TP
.B SSL_CERT_FILE\fR, \fBSSL_CERT_DIR
Certificates of the authorities that downloads trust.
.TP
.B NO_COLOR\fR, \fBTERM
If NO_COLOR is set or TERM is dumb, quire chat and quire top print without formatting.
.TP
.B COLUMNS
Width of help texts; without it, that of the terminal.
.SH FILES
.TP
.I ~/.cache/huggingface/hub
Downloaded models, unless an environment variable names another directory.
.TP
.I ~/.local/state/quire/chat_history
History of quire chat, in $XDG_STATE_HOME if that is set.
.SH EXIT STATUS
0 = success, 1 = failure, 2 = wrong usage.
.SH EXAMPLES
.TP
Write text with the embedded model:
quire generate \-\-prompt "Once upon a time" \-\-max\-tokens 60
.TP
Download a model and chat with it:
quire run Qwen/Qwen2.5\-0.5B\-Instruct
.TP
Serve a model on port 8000 of all addresses:
quire serve path/to/model \-\-host 0.0.0.0 \-\-api\-key\-file keys.txt
.TP
Watch a running server:
quire top http://127.0.0.1:8000
.SH SEE ALSO
.BR curl (1),
.BR systemctl (1)
)";

// Characters that groff would interpret.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        out += c;
    }
  }
  if (out.starts_with('.')) out.insert(0, "\\&");
  return out;
}

std::string sentence(const std::string& text) {
  return text.empty() || text.ends_with('.') ? escaped(text) : escaped(text) + ".";
}

std::string flag_entry(const FlagReference& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back("\\fB" + escaped(name) + "\\fR");
  std::string out = ".TP\n" + join(names, ", ");
  const std::string value =
      flag.choices.empty() || flag.choices.size() > 12 ? flag.value : join(flag.choices, "|");
  if (!value.empty())
    out +=
        cat(flag.value_optional ? " [" : " ", "\\fI", escaped(value), "\\fR", flag.value_optional ? "]" : "");
  out += cat("\n", sentence(flag.description));
  if (flag.required) out += " Required.";
  if (!flag.default_value.empty()) out += cat(" Default: ", escaped(flag.default_value), ".");
  return out + "\n";
}

// "Sampling" of "Sampling (default: ...)".
std::string short_title(const FlagGroup& group) {
  return group.title.substr(0, group.title.find(" ("));
}

bool is_common(const FlagReference& flag) {
  static const std::vector<std::string> kCommon = {"--help", "--help-all", "--config", "--log-level"};
  return std::find(kCommon.begin(), kCommon.end(), flag.names.back()) != kCommon.end();
}

std::string usage(const CommandReference& command) {
  std::string out = "\\fBquire " + command.name + "\\fR";
  for (const FlagReference& argument : command.positionals) {
    const std::string name = "\\fI" + argument.value + "\\fR" + (argument.repeatable ? "..." : "");
    out += argument.required ? " " + name : " [" + name + "]";
  }
  return out + " [\\fIFLAGS\\fR]";
}

std::string command_section(const CommandReference& command, const std::vector<FlagGroup>& shared) {
  std::string out =
      cat(".SS quire ", command.name, "\n", usage(command), "\n.PP\n", sentence(command.summary), "\n");
  for (const FlagReference& argument : command.positionals)
    out += cat(".TP\n.I ", argument.value, "\n", sentence(argument.description), "\n");
  std::vector<std::string> others;
  for (const FlagGroup& group : command.groups) {
    if (std::find(shared.begin(), shared.end(), group) != shared.end()) {
      others.push_back(short_title(group));
      continue;
    }
    for (const FlagReference& flag : group.flags) {
      if (!is_common(flag)) out += flag_entry(flag);
    }
  }
  if (!command.footer.empty()) out += cat(".PP\n.nf\n", escaped(command.footer), ".fi\n");
  if (!others.empty()) out += cat(".PP\nAlso accepts the flags of: ", join(others, ", "), ".\n");
  return out;
}

}  // namespace

std::string manual_page(const CommandReference& program, const std::string& version) {
  const std::vector<CommandReference> commands = runnable_commands(program);
  const std::vector<FlagGroup> shared = shared_groups(commands);
  std::string out = ".\\\" Written by: quire man\n";
  out += cat(".TH QUIRE 1 \"\" \"quire ", version, "\" \"User Commands\"\n");
  out += ".SH NAME\nquire \\- serve and run large language models\n.SH SYNOPSIS\n";
  for (const CommandReference& command : commands)
    out += (out.ends_with("SYNOPSIS\n") ? "" : ".br\n") + usage(command) + "\n";
  out += cat(".SH DESCRIPTION\n", sentence(program.summary), "\n.PP\n");
  out +=
      "Sizes are written as 4GiB, 512MiB or in bytes, durations as 250ms, 1.5s or in seconds. Without a "
      "model argument, "
      "commands use the model that is embedded in the program.\n.SH OPTIONS\n";
  for (const FlagGroup& group : program.groups) {
    for (const FlagReference& flag : group.flags) out += flag_entry(flag);
  }
  out += ".PP\nEvery command has also:\n";
  for (const FlagGroup& group : commands.front().groups) {
    for (const FlagReference& flag : group.flags) {
      if (is_common(flag) && !flag.names.back().starts_with("--help")) out += flag_entry(flag);
    }
  }
  out += ".SH COMMANDS\n";
  for (const CommandReference& command : commands) out += command_section(command, shared);
  for (const FlagGroup& group : shared) {
    out += cat(".SH ", escaped(short_title(group)), " FLAGS\n");
    for (const FlagReference& flag : group.flags) out += flag_entry(flag);
  }
  return out + kTail;
}

}  // namespace quire::cli
