// The flags and examples that the help of each command shows.
#include "cli/help.h"

namespace quire::cli {
namespace {

constexpr HelpGroup kHelpGroups[] = {
    {"Run a model", "run chat serve generate"},
    {"Models", "pull list rm inspect quantize merge bundle"},
    {"Measurements", "top bench perplexity simulate"},
    {"Text", "tokenize detokenize render parse check-schema"},
    {"Other", "completion man version"},
};

constexpr std::string_view kChatFlags =
    "--prompt --system --temperature --top-p --max-tokens --max-model-len --quantization --threads "
    "--no-markdown "
    "--no-history";

constexpr CommandHelp kCommandHelps[] = {
    {"", "", {"quire run Qwen/Qwen3-0.6B \"Why is the sky blue?\"", "quire serve model.gguf --port 8080"}},
    {"generate",
     "--prompt --prompts-file --max-tokens --temperature --top-p --stop --n --sampling-seed --quantization "
     "--json",
     {"quire generate \"Once upon a time\" --max-tokens 60",
      "quire generate model.gguf --prompts-file prompts.jsonl --json"}},
    {"chat", kChatFlags, {"quire chat", "quire chat model.gguf --system \"You are a pirate.\""}},
    {"run",
     kChatFlags,
     {"quire run Qwen/Qwen3-0.6B", "git diff | quire run model.gguf \"Explain this change\""}},
    {"serve",
     "--host --port --api-key-file --served-model-name --max-model-len --kv-cache-memory --max-num-seqs "
     "--threads "
     "--quantization --chat-template",
     {"quire serve Qwen/Qwen3-0.6B", "quire serve model.gguf --port 8080 --max-model-len 8192"}},
    {"bench",
     "",
     {"quire bench latency --batch-size 8", "quire bench serve --base-url http://127.0.0.1:8000"}},
    {"bench latency",
     "--batch-size --input-len --output-len --num-iters --json --dtype --quantization --kv-cache-dtype "
     "--max-model-len --threads",
     {"quire bench latency --batch-size 8 --input-len 128 --output-len 32",
      "quire bench latency model.gguf --json latency.json"}},
    {"bench throughput",
     "--num-prompts --input-len --output-len --dataset --json --dtype --quantization --kv-cache-memory "
     "--max-num-seqs --threads",
     {"quire bench throughput --num-prompts 100",
      "quire bench throughput model.gguf --dataset sharegpt.json"}},
    {"bench serve",
     "--base-url --model --api-key --num-prompts --input-len --output-len --request-rate --max-concurrency "
     "--goodput "
     "--json",
     {"quire bench serve --base-url http://127.0.0.1:8000 --request-rate 4",
      "quire bench serve --max-concurrency 16 --json result.json"}},
    {"bench steps",
     "--num-rounds --max-seconds --json --dtype --quantization --kv-cache-dtype --max-num-batched-tokens "
     "--max-num-seqs --threads",
     {"quire bench steps --json steps.json", "quire bench steps model.gguf --threads 4"}},
    {"tokenize",
     "",
     {"quire tokenize \"Hello world\"", "quire tokenize path/to/model --file text.txt --json"}},
    {"detokenize", "", {"quire detokenize 690 1885", "quire detokenize path/to/model --ids 690,1885"}},
    {"render",
     "",
     {"quire render --messages messages.json",
      "quire render path/to/model --messages messages.json --tools t.json"}},
    {"parse",
     "",
     {"quire parse path/to/model --text output.txt --tools tools.json",
      "quire parse --tool-call-parser hermes --text - --json"}},
    {"check-schema", "", {"quire check-schema schema.json", "quire check-schema - --json < schema.json"}},
    {"inspect",
     "--json --tensors --dtype --quantization --kv-cache-dtype --kv-cache-memory --max-model-len "
     "--block-size "
     "--runner --model",
     {"quire inspect path/to/model --quantization int8 --kv-cache-memory 4GiB",
      "quire inspect path/to/adapter --model path/to/model"}},
    {"bundle", "", {"quire bundle model.gguf -o my-model", "./my-model chat"}},
    {"perplexity",
     "--text --window --json --dtype --quantization --activation-dtype --kv-cache-dtype --max-model-len "
     "--threads "
     "--revision",
     {"quire perplexity --text text.txt",
      "quire perplexity path/to/model --text text.txt --quantization int4"}},
    {"quantize",
     "--output --format --bits --group-size --method --text --samples --eval-text --threads --revision",
     {"quire quantize path/to/model -o DIR --format gguf-q4_k",
      "quire quantize path/to/model -o DIR --format gptq --text text.txt"}},
    {"merge",
     "",
     {"quire merge path/to/model path/to/adapter -o DIR",
      "quire merge Qwen/Qwen3-0.6B my-adapter -o merged"}},
    {"simulate",
     "--trace --num-requests --request-rate --input-len --output-len --memory --replicas --goodput --svg "
     "--json",
     {"quire simulate --num-requests 1000 --request-rate 4",
      "quire simulate path/to/model --trace trace.csv --json result.json"}},
    {"top", "", {"quire top", "quire top http://127.0.0.1:8080 --once"}},
    {"pull", "", {"quire pull Qwen/Qwen3-0.6B", "quire pull unsloth/Qwen3-0.6B-GGUF:Q4_K_M"}},
    {"list", "", {"quire list", "quire list --json"}},
    {"rm", "", {"quire rm Qwen/Qwen3-0.6B", "quire rm unsloth/Qwen3-0.6B-GGUF:Q4_K_M"}},
    {"completion",
     "",
     {"source <(quire completion bash)", "quire completion fish > ~/.config/fish/completions/quire.fish"}},
    {"man", "", {"quire man > quire.1", "quire man | man -l -"}},
};

}  // namespace

std::span<const CommandHelp> help_of_commands() {
  return kCommandHelps;
}

std::span<const HelpGroup> help_groups() {
  return kHelpGroups;
}

}  // namespace quire::cli
