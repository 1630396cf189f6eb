// The table of flags, commands and values that people bring from other programs.
#include <algorithm>
#include <array>

#include "cli/foreign_flags.h"

namespace quire::cli {
namespace {

using enum ForeignAction;
using enum ForeignValue;

constexpr std::string_view kCpu = "models run on the CPU";
constexpr std::string_view kOneProcess =
    "one process runs on one device; start a server per group of cores (docs/operations.md)";
constexpr std::string_view kOneProcessIgnored = "one process runs on one device";
constexpr std::string_view kKernels = "the kernels are selected for the processor";
constexpr std::string_view kMultimodal = "prompts are text only";
constexpr std::string_view kFeatureIsOff = "the feature that it belongs to is off";
constexpr std::string_view kLog = "--log-level sets what is logged";
constexpr std::string_view kFiles = "safetensors and GGUF files are recognized and mapped";
constexpr std::string_view kScaledLora =
    "an adapter has the scale of its files; use --lora-modules NAME=PATH";
constexpr std::string_view kSpeculation = "there is no speculative decoding";
constexpr std::string_view kProxy =
    "use a reverse proxy for TLS, path prefixes and sockets (docs/operations.md)";
constexpr std::string_view kTools = "clients run the tools; the server returns the calls";
constexpr std::string_view kConfig = "the values of the model's files are used";
constexpr std::string_view kField = "it is a field of requests";
constexpr std::string_view kSampler =
    "this sampler does not exist here; use --temperature, --top-k, --top-p or --min-p";

constexpr ForeignFlag kVllmFlags[] = {
    // The same thing.
    {.names = "--model", .action = kModel, .value = kOne},
    {.names = "-q", .action = kSame, .value = kOne, .here = "--quantization"},
    {.names = "--kv-cache-memory-bytes", .action = kSame, .value = kOne, .here = "--kv-cache-memory"},
    {.names = "--kv-offloading-size", .action = kSame, .value = kOne, .here = "--swap-space", .unit = "GiB"},
    {.names = "--uvicorn-log-level", .action = kSame, .value = kOne, .here = "--log-level"},
    {.names = "--enable-log-requests", .action = kSame, .here = "--log-requests"},
    {.names = "--disable-uvicorn-access-log", .action = kSame, .here = "--disable-log-requests"},
    {.names = "--sse-keep-alive-interval", .action = kSame, .value = kOne, .here = "--stream-keep-alive"},
    {.names = "--task", .action = kSame, .value = kOne, .here = "--runner"},
    {.names = "--convert", .action = kSame, .value = kOne, .here = "--runner"},

    // Harmless.
    {.names = "--gpu-memory-utilization",
     .value = kOne,
     .note = "models run on the CPU; --kv-cache-memory sets the memory of the KV cache"},
    {.names = "--enable-chunked-prefill", .note = "prompts are always prefilled in chunks"},
    {.names = "--enforce-eager", .note = "there are no CUDA graphs"},
    {.names = "--trust-remote-code", .note = "code of checkpoints is never run"},
    {.names =
         "--compilation-config -cc --cudagraph-capture-sizes --cuda-graph-sizes --max-cudagraph-capture-size "
         "--max-seq-len-to-capture --optimization-level -O --ir-op-priority --kernel-config "
         "--attention-config -ac --attention-backend --linear-backend --moe-backend --monokernel "
         "--gdn-prefill-backend --kda-decode-backend --kda-prefill-backend --mamba-backend --mamba-config "
         "--mamba-block-size --mamba-cache-dtype --mamba-cache-mode --mamba-cache-philox-rounds "
         "--mamba-ssm-cache-dtype --mamba-ssu-algorithm --sparse-indexer-topk-backend "
         "--replayssm-buffer-len --performance-mode",
     .value = kOne,
     .note = kKernels},
    {.names = "--enable-flashinfer-autotune --disable-cascade-attn --enable-mamba-cache-stochastic-rounding "
              "--enable-mamba-shared-prefix-checkpoint --use-replayssm --swa-bounded-replay",
     .note = kKernels},
    {.names = "--cpu-offload-gb --cpu-offload-params --offload-backend --offload-group-size "
              "--offload-num-in-group "
              "--offload-params --offload-prefetch-step --kv-offloading-backend --sleep-mode-backend "
              "--sleep-preserve-parameter-names",
     .value = kOne,
     .note = "the weights are in main memory"},
    {.names = "--enable-cumem-allocator --sleep-mode-offload-cudagraph",
     .note = "the weights are in main memory"},
    {.names =
         "--async-scheduling --disable-async-output-proc --use-v2-block-manager --enable-scheduler-overlap",
     .note = "the engine overlaps scheduling and computation by itself"},
    {.names =
         "--num-scheduler-steps --prefill-schedule-interval --prefix-cache-retention-interval "
         "--prefix-match-unit --prefix-caching-hash-algo --max-num-active-seqs --max-num-scheduled-tokens "
         "--watermark",
     .value = kOne,
     .note = "the scheduler needs no such setting; --max-num-seqs and --max-num-batched-tokens limit a step"},
    {.names =
         "--multi-step-stream-outputs --long-prefill-token-threshold-adaptive --scheduler-reserve-full-isl "
         "--disable-hybrid-kv-cache-manager --kv-sharing-fast-prefill",
     .note = "the scheduler needs no such setting"},
    {.names = "--stream-interval", .value = kOne, .note = "each token is sent when it is generated"},
    {.names =
         "--distributed-executor-backend --distributed-timeout-seconds --cpu-distributed-timeout-seconds "
         "--max-parallel-loading-workers --worker-cls --worker-extension-cls --ubatch-size "
         "--data-parallel-address -dpa --data-parallel-backend -dpb --data-parallel-rank -dpn "
         "--data-parallel-rpc-port -dpp --data-parallel-size-local -dpl --data-parallel-start-rank -dpr "
         "--dbo-decode-token-threshold --dbo-prefill-token-threshold --dcp-comm-backend "
         "--dcp-kv-cache-interleave-size --cp-kv-cache-interleave-size --device-ids --dp-sync-interval "
         "--elastic-ep-max-dp-size --eplb-config --expert-placement-strategy --fault-tolerance-config "
         "--master-addr --master-port --node-rank -r",
     .value = kOne,
     .note = kOneProcessIgnored},
    {.names =
         "--enable-expert-parallel -ep --enable-eplb --enable-elastic-ep --enable-ep-weight-filter "
         "--enable-dbo --enable-hc-sp --enable-batch-sharded-sampling --enable-fault-tolerance "
         "--enable-nccl-comm-suspend --enable-shm-tensor-arena --disable-custom-all-reduce "
         "--disable-nccl-for-dp-synchronization --dcp-q-replicate --data-parallel-external-lb -dpe "
         "--data-parallel-hybrid-lb -dph --data-parallel-multi-port-external-lb --ray-workers-use-nsight "
         "--worker-use-ray --disable-frontend-multiprocessing",
     .note = kOneProcessIgnored},
    {.names = "--api-server-count -asc",
     .value = kOne,
     .note = "one process serves HTTP; --http-threads sets its threads"},
    {.names = "--numa-bind", .note = "numactl binds a process to memory"},
    {.names = "--numa-bind-cpus --numa-bind-nodes",
     .value = kOne,
     .note = "numactl binds a process to memory"},
    {.names = "--allow-deprecated-quantization --use-tqdm-on-load", .note = kFiles},
    {.names = "--config-format --code-revision --ignore-patterns --model-loader-extra-config "
              "--pt-load-map-location --safetensors-load-strategy --safetensors-prefetch-block-size "
              "--safetensors-prefetch-num-threads",
     .value = kOne,
     .note = kFiles},
    {.names = "--allowed-local-media-path --allowed-media-domains --ec-manager-config --limit-mm-per-prompt "
              "--media-io-kwargs --mm-device-do-normalize --mm-encoder-attn-backend --mm-encoder-attn-dtype "
              "--mm-encoder-tp-mode --mm-hasher-algorithm --mm-ipc-gpu-memory-gb --mm-processor-cache-gb "
              "--mm-processor-cache-type --mm-processor-device --mm-processor-kwargs "
              "--mm-shm-cache-max-object-size-mb --mm-tensor-ipc --video-pruning-method --video-pruning-rate",
     .value = kOne,
     .note = kMultimodal},
    {.names = "--enable-mm-embeds --enable-mm-processor-stats --interleave-mm-strings --language-model-only "
              "--skip-mm-profiling --disable-chunked-mm-input --disable-mm-preprocessor-cache",
     .note = kMultimodal},
    {.names =
         "--lora-dtype --lora-target-modules "
         "--max-lora-cls-labels "
         "--lora-extra-vocab-size --default-mm-loras --per-request-spec-decode-metrics --reasoning-config "
         "--reasoning-parser-plugin --tool-parser-plugin --num-lookahead-slots",
     .value = kOne,
     .note = kFeatureIsOff},
    {.names = "--fully-sharded-loras --enable-tower-connector-lora --enable-moe-shared-loras "
              "--enable-mixed-moe-lora-format --specialize-active-lora "
              "--exclude-tools-when-tool-choice-none",
     .note = kFeatureIsOff},
    {.names = "--disable-log-stats --enable-log-outputs --enable-log-deltas --log-error-stack "
              "--enable-logging-iteration-details --aggregate-engine-logging --jit-monitor-verbose "
              "--fail-on-environ-validation",
     .note = kLog},
    {.names = "--max-log-len --log-config-file --logging-config --jit-monitor-mode "
              "--disable-access-log-for-endpoints --watchdog-config",
     .value = kOne,
     .note = kLog},
    {.names = "--cudagraph-metrics --enable-layerwise-nvtx-tracing --enable-mfu-metrics --kv-cache-metrics "
              "--enable-server-load-tracking",
     .note = "/metrics has all metrics; --profile writes a trace"},
    {.names =
         "--collect-detailed-traces --custom-histogram-buckets --kv-cache-metrics-sample --profiler-config "
         "--show-hidden-metrics-for-version",
     .value = kOne,
     .note = "/metrics has all metrics; --profile writes a trace"},
    {.names = "--additional-config --aux-output-config --renderer-num-workers",
     .value = kOne,
     .note = "the engine needs no such setting"},
    {.names = "--tokens-only", .note = "requests may have token ids instead of text"},
    {.names = "--enable-prompt-tokens-details", .note = "usage always has prompt_tokens_details"},
    {.names = "--enable-request-id-headers", .note = "X-Request-Id is always returned"},
    {.names = "--disable-fastapi-docs --enable-offline-docs",
     .note = "/openapi.json is always served; --no-ui turns off the web page"},
    {.names = "--allow-credentials", .note = "--allowed-origins names the pages that may use the server"},
    {.names = "--allowed-methods --allowed-headers",
     .value = kOne,
     .note = "--allowed-origins names the pages that may use the server"},
    {.names = "--chat-template-content-format",
     .value = kOne,
     .note = "the form of the content is taken from the template"},
    {.names = "--h11-max-incomplete-event-size --h11-max-header-count",
     .value = kOne,
     .note = "the server limits headers; --max-body-size limits bodies"},
    {.names = "--structured-outputs-config --guided-decoding-backend",
     .value = kOne,
     .note = "there is one implementation"},
    {.names = "--enable-reasoning", .note = "the format of reasoning is found with the chat template"},
    {.names = "--enable-auto-tool-choice", .note = "the model may always decide whether it calls a tool"},

    // Not available.
    {.names = "--tensor-parallel-size -tp --pipeline-parallel-size -pp --data-parallel-size -dp "
              "--decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp --nnodes -n",
     .action = kUnavailable,
     .value = kOne,
     .note = kOneProcess,
     .harmless = "1"},
    {.names = "--headless", .action = kUnavailable, .note = kOneProcess},
    {.names =
         "--speculative-config -sc --speculative-model --num-speculative-tokens --spec-method --spec-model "
         "--spec-tokens",
     .action = kUnavailable,
     .value = kOne,
     .note = kSpeculation},
    {.names = "--tool-server", .action = kUnavailable, .value = kOne, .note = kTools},
    {.names = "--no-enable-chunked-prefill",
     .action = kUnavailable,
     .note = "prompts are always prefilled in chunks; --max-num-batched-tokens sets their size"},
    {.names = "--load-format",
     .action = kUnavailable,
     .value = kOne,
     .note = "safetensors and GGUF files are recognized; there are no random weights",
     .harmless = "auto hf safetensors gguf fastsafetensors"},
    {.names = "--tokenizer",
     .action = kUnavailable,
     .value = kOne,
     .note = "the model's own tokenizer is used"},
    {.names = "--tokenizer-mode",
     .action = kUnavailable,
     .value = kOne,
     .note = "the model's own tokenizer is used",
     .harmless = "auto hf slow"},
    {.names = "--tokenizer-revision",
     .action = kUnavailable,
     .value = kOne,
     .note = "the tokenizer has the revision of the model (--revision)"},
    {.names = "--skip-tokenizer-init",
     .action = kUnavailable,
     .note = "a directory without tokenizer files takes token ids only"},
    {.names = "--model-impl",
     .action = kUnavailable,
     .value = kOne,
     .note = "there is one implementation of each architecture",
     .harmless = "auto vllm"},
    {.names =
         "--hf-overrides --hf-config-path --rope-scaling --rope-theta --model-class-overrides "
         "--model-weights "
         "--engram-config --diffusion-config --pooler-config --override-pooler-config --quantization-config",
     .action = kUnavailable,
     .value = kOne,
     .note = "edit the model's config.json, which is always used"},
    {.names = "--download-dir",
     .action = kUnavailable,
     .value = kOne,
     .note = "the environment variable HF_HUB_CACHE names the directory"},
    {.names = "--hf-token",
     .action = kUnavailable,
     .value = kOptional,
     .note = "the environment variable HF_TOKEN has the token"},
    {.names = "--num-gpu-blocks-override",
     .action = kUnavailable,
     .value = kOne,
     .note = "--kv-cache-memory sets the size; quire inspect shows the bytes per block"},
    {.names = "--max-num-queued-tokens",
     .action = kUnavailable,
     .value = kOne,
     .note = "use --max-num-queued-reqs"},
    {.names = "--kv-cache-dtype-skip-layers",
     .action = kUnavailable,
     .value = kOne,
     .note = "--kv-cache-dtype is the type of all layers"},
    {.names = "--kv-transfer-config --kv-events-config --ec-transfer-config --weight-transfer-config",
     .action = kUnavailable,
     .value = kOne,
     .note = "engines exchange no data; --kv-disk-cache keeps prefixes on a disk"},
    {.names =
         "--scheduler-cls --io-processor-plugin --logits-processors --middleware --logits-processor-pattern",
     .action = kUnavailable,
     .value = kOne,
     .note = "there are no plugins; --scheduling-policy selects a scheduler"},
    {.names = "--logprobs-mode",
     .action = kUnavailable,
     .value = kOne,
     .note = "log-probabilities are raw; the Python package has logprobs_mode",
     .harmless = "raw_logprobs"},
    {.names = "--watermark-config --otlp-traces-endpoint --response-role",
     .action = kUnavailable,
     .value = kOne,
     .note = "there is no counterpart"},
    {.names = "--disable-sliding-window",
     .action = kUnavailable,
     .note = "layers with sliding windows always use them; --max-model-len limits sequences to the window"},
    {.names = "--enable-prompt-embeds", .action = kUnavailable, .note = "prompts are text or token ids"},
    {.names =
         "--enable-sleep-mode --enable-return-routed-experts --return-sampling-mask --enable-trace-replay "
         "--mm-encoder-only",
     .action = kUnavailable,
     .note = "there is no counterpart"},
    {.names = "--enable-tokenizer-info-endpoint",
     .action = kUnavailable,
     .note = "POST /tokenize and /detokenize convert texts"},
    {.names = "--ssl-keyfile --ssl-certfile --ssl-ca-certs --ssl-cert-reqs --root-path --uds",
     .action = kUnavailable,
     .value = kOne,
     .note = kProxy},
    {.names = "--enable-ssl-refresh", .action = kUnavailable, .note = kProxy},
};

constexpr ForeignFlag kLlamaCppFlags[] = {
    // The same thing.
    {.names = "-m --model -hf -hfr --hf-repo", .action = kModel, .value = kOne},
    {.names = "-hff --hf-file", .action = kModelFile, .value = kOne},
    {.names = "-a --alias", .action = kSame, .value = kOne, .here = "--served-model-name"},
    {.names = "-c --ctx-size", .action = kSame, .value = kOne, .here = "--max-model-len"},
    {.names = "-np --parallel", .action = kSame, .value = kOne, .here = "--max-num-seqs"},
    {.names = "-ctk --cache-type-k -ctv --cache-type-v",
     .action = kSame,
     .value = kOne,
     .here = "--kv-cache-dtype"},
    {.names = "-n --predict --n-predict", .action = kSame, .value = kOne, .here = "--max-tokens"},
    {.names = "-b --batch-size",
     .action = kSame,
     .value = kOne,
     .here = "--max-num-batched-tokens",
     .commands = "serve generate chat run perplexity bench"},
    {.names = "-t --threads -tb --threads-batch", .action = kSame, .value = kOne, .here = "--threads"},
    {.names = "--cache-prompt", .action = kSame, .here = "--enable-prefix-caching"},
    {.names = "--no-cache-prompt", .action = kSame, .here = "--no-enable-prefix-caching"},
    {.names = "-cram --cache-ram", .action = kSame, .value = kOne, .here = "--swap-space", .unit = "MiB"},
    {.names = "--slot-save-path", .action = kSame, .value = kOne, .here = "--kv-disk-cache"},
    {.names = "--cors-origins", .action = kSame, .value = kOne, .here = "--allowed-origins"},
    {.names = "--threads-http", .action = kSame, .value = kOne, .here = "--http-threads"},
    {.names = "--sse-ping-interval", .action = kSame, .value = kOne, .here = "--stream-keep-alive"},
    {.names = "--no-webui", .action = kSame, .here = "--no-ui"},
    {.names = "--embedding --embeddings --rerank --reranking", .action = kSame, .here = "--runner=pooling"},
    {.names = "--chat-template-file", .action = kSame, .value = kOne, .here = "--chat-template"},
    {.names = "--log-disable", .action = kSame, .here = "--log-level=off"},
    {.names = "--temp", .action = kSame, .value = kOne, .here = "--temperature"},
    {.names = "-s", .action = kSame, .value = kOne, .here = "--sampling-seed"},
    {.names = "--repeat-penalty", .action = kSame, .value = kOne, .here = "--repetition-penalty"},
    {.names = "-r --reverse-prompt", .action = kSame, .value = kOne, .here = "--stop"},
    {.names = "-sp --special", .action = kSame, .here = "--no-skip-special-tokens"},
    {.names = "-sys --system-prompt", .action = kSame, .value = kOne, .here = "--system"},
    {.names = "-p --prompt", .action = kSame, .value = kOne, .here = "--text", .commands = "tokenize"},
    {.names = "-f", .action = kSame, .value = kOne, .here = "--file", .commands = "tokenize detokenize"},
    {.names = "-f", .action = kSame, .value = kOne, .here = "--text", .commands = "perplexity quantize"},
    {.names = "-v --verbose --log-verbose",
     .action = kSame,
     .here = "--log-level=debug",
     .commands = "serve generate pull inspect"},

    // Harmless.
    {.names = "-ngl --gpu-layers --n-gpu-layers -dev -sm --split-mode -ts --tensor-split -mg --main-gpu -ot "
              "--override-tensor -ncmoe --n-cpu-moe",
     .value = kOne,
     .note = kCpu},
    {.names = "-cmoe --cpu-moe -nkvo --no-kv-offload --no-op-offload", .note = kCpu},
    {.names = "-fa --flash-attn",
     .value = kOptional,
     .note = "attention is always computed in tiles",
     .harmless = "on off auto 1 0 true false"},
    {.names = "-ub --ubatch-size",
     .value = kOne,
     .note = "--max-num-batched-tokens sets the tokens per step"},
    {.names = "-kvu --kv-unified", .note = "sequences always share one pool of blocks"},
    {.names = "-cb --cont-batching", .note = "batching is always continuous"},
    {.names = "--mlock --mmap --no-mmap --repack --no-repack --check-tensors -dio --direct-io",
     .note = "--weight-cache keeps packed weights, which are mapped"},
    {.names = "-lm --load-mode",
     .value = kOne,
     .note = "--weight-cache keeps packed weights, which are mapped"},
    {.names = "--warmup --no-warmup", .note = "there is no warm-up"},
    {.names = "--prio --prio-batch --poll --poll-batch", .value = kOne, .note = "waiting threads sleep"},
    {.names = "-C --cpu-mask -Cr --cpu-range --numa --cpu-strict",
     .value = kOne,
     .note = "taskset or numactl select cores; --threads sets their number"},
    {.names = "--cache-reuse", .value = kOne, .note = "equal prefixes share their blocks"},
    {.names = "--jinja", .note = "chat templates are always Jinja"},
    {.names = "--no-jinja --skip-chat-parsing", .note = "chat templates are always Jinja"},
    {.names = "--metrics --slots --props --no-slots", .note = "/metrics and the web page show the engine"},
    {.names = "--webui --ui", .note = "the web page is always served; --no-ui turns it off"},
    {.names = "--perf --no-perf --show-timings",
     .note = "--profile writes a trace with the time of every operation"},
    {.names = "-cnv --conversation -i --interactive -if --interactive-first -st --single-turn -co --color "
              "--simple-io -e --escape --no-escape --multiline-input -mli",
     .note = "the terminal is used as it is; quire chat holds a conversation"},
    {.names = "-no-cnv --no-conversation", .note = "quire generate continues a text"},
    {.names = "--log-prefix --log-timestamps --log-colors", .note = kLog},
    {.names = "-lv --verbosity --log-verbosity", .value = kOne, .note = kLog},

    // Not available.
    {.names = "-hft",
     .action = kUnavailable,
     .value = kOne,
     .note = "the environment variable HF_TOKEN has the token"},
    {.names = "-mu --model-url -dr --docker-repo",
     .action = kUnavailable,
     .value = kOne,
     .note = "download the file, or give the name of a model: org/name:Q4_K_M"},
    {.names = "--offline", .action = kUnavailable, .note = "set the environment variable HF_HUB_OFFLINE=1"},
    {.names = "--keep",
     .action = kUnavailable,
     .value = kOne,
     .note = "a sequence ends at --max-model-len",
     .harmless = "0"},
    {.names = "--context-shift", .action = kUnavailable, .note = "a sequence ends at --max-model-len"},
    {.names = "--no-context-shift", .note = "a sequence ends at --max-model-len"},
    {.names = "--rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor "
              "--yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --override-kv",
     .action = kUnavailable,
     .value = kOne,
     .note = kConfig},
    {.names = "--lora", .action = kUnavailable, .value = kOne, .note = "use --lora-modules NAME=PATH"},
    {.names = "--lora-scaled", .action = kUnavailable, .value = kOne, .note = kScaledLora},
    {.names = "--control-vector --control-vector-scaled",
     .action = kUnavailable,
     .value = kOne,
     .note = "there are no control vectors"},
    {.names =
         "-md --model-draft -hfd --hf-repo-draft --spec-type --draft --draft-max --draft-min --draft-n -cd "
         "--ctx-size-draft -ngld --gpu-layers-draft",
     .action = kUnavailable,
     .value = kOne,
     .note = kSpeculation},
    {.names = "-mm --mmproj --mmproj-url --image --audio",
     .action = kUnavailable,
     .value = kOne,
     .note = kMultimodal},
    {.names = "--no-mmproj", .note = kMultimodal},
    {.names = "--no-cont-batching -nocb", .action = kUnavailable, .note = "batching is always continuous"},
    {.names = "--ssl-key-file --ssl-cert-file --api-prefix --path",
     .action = kUnavailable,
     .value = kOne,
     .note = kProxy},
    {.names = "-to --timeout",
     .action = kUnavailable,
     .value = kOne,
     .note = "--http-write-timeout and --http-idle-timeout set the times"},
    {.names = "--pooling",
     .action = kUnavailable,
     .value = kOne,
     .note = "the pooling is read from the model's files"},
    {.names = "--chat-template-kwargs",
     .action = kSame,
     .value = kOne,
     .here = "--default-chat-template-kwargs",
     .commands = "serve"},
    {.names = "--reasoning-format",
     .action = kUnavailable,
     .value = kOne,
     .note = "reasoning has fields of its own; --reasoning-parser none leaves it in the content",
     .harmless = "auto deepseek"},
    {.names = "--reasoning-budget",
     .action = kUnavailable,
     .value = kOne,
     .note = "reasoning has no limit of its own",
     .harmless = "-1"},
    {.names = "--tools --mcp-servers-config", .action = kUnavailable, .value = kOne, .note = kTools},
    {.names = "--agent", .action = kUnavailable, .note = kTools},
    {.names = "--models-dir --models-preset --models-max --sleep-idle-seconds",
     .action = kUnavailable,
     .value = kOne,
     .note = "a process serves one model; start one per model"},
    {.names = "--log-file",
     .action = kUnavailable,
     .value = kOne,
     .note = "the log is written to stderr: 2> FILE"},
    {.names = "--repeat-last-n",
     .action = kUnavailable,
     .value = kOne,
     .note = "--repetition-penalty covers the prompt and the whole output"},
    {.names = "-l --logit-bias",
     .action = kUnavailable,
     .value = kOne,
     .note = "logit_bias is a field of requests"},
    {.names = "--grammar-file", .action = kSame, .value = kOne, .here = "--grammar"},
    {.names = "-j -jf --json-schema-file", .action = kSame, .value = kOne, .here = "--json-schema"},
    {.names = "--mirostat", .action = kSame, .value = kOne, .here = "--mirostat-mode"},
    {.names = "--mirostat-lr", .action = kSame, .value = kOne, .here = "--mirostat-eta"},
    {.names = "--mirostat-ent", .action = kSame, .value = kOne, .here = "--mirostat-tau"},
    {.names = "--typical", .action = kSame, .value = kOne, .here = "--typical-p"},
    {.names = "--top-nsigma", .action = kSame, .value = kOne, .here = "--top-n-sigma"},
    {.names = "--dynatemp-exp", .action = kSame, .value = kOne, .here = "--dynatemp-exponent"},
    {.names = "--dry-sequence-breaker", .action = kSame, .value = kOne, .here = "--dry-sequence-breakers"},
    {.names = "--sampler-seq", .action = kUnavailable, .value = kOne, .note = "use --samplers"},
    {.names = "--adaptive-target", .action = kUnavailable, .value = kOne, .note = kSampler},
    {.names = "-f --file",
     .action = kUnavailable,
     .value = kOne,
     .note = "--prompts-file reads one prompt per line, and - reads standard input"},
    {.names = "--no-display-prompt",
     .action = kUnavailable,
     .note = "--json prints the prompt and the output in separate fields"},
    {.names = "--list-devices", .action = kUnavailable, .note = "quire version lists the instruction sets"},
    {.names = "-cl --cache-list", .action = kUnavailable, .note = "quire list lists the models in the cache"},
};

constexpr ForeignFlag kOllamaFlags[] = {
    {.names = "-v --verbose", .note = "quire generate --stats prints times and rates"},
    {.names = "--nowordwrap --hidethinking", .note = "text is printed as it is generated"},
    {.names = "--insecure",
     .action = kUnavailable,
     .note = "downloads use TLS; SSL_CERT_FILE names certificates"},
    {.names = "--keepalive", .value = kOne, .note = "the model stays loaded until the command ends"},
    {.names = "--format",
     .action = kUnavailable,
     .value = kOne,
     .note = "use --json-schema",
     .commands = "run chat generate serve"},
    {.names = "--think",
     .action = kUnavailable,
     .value = kOptional,
     .note = "chat_template_kwargs of a request turns reasoning on or off",
     .harmless = "true high medium low"},
    {.names = "--dimensions", .action = kUnavailable, .value = kOne, .note = kField},
    {.names = "--modelfile --parameters --system --template --license",
     .action = kUnavailable,
     .note = "quire inspect shows the model; quire render prints what its chat template makes of messages",
     .commands = "inspect"},
    {.names = "--quantize",
     .action = kUnavailable,
     .value = kOne,
     .note = "quire quantize MODEL -o DIR --format gguf-q4_k"},
};

constexpr ForeignCommand kForeignCommands[] = {
    {"ls", "list", ""},
    {"show", "inspect", ""},
    {"remove", "rm", ""},
    {"delete", "rm", ""},
    {"download", "pull", ""},
    {"complete", "generate", ""},
    {"completions", "completion", ""},
    {"server", "serve", ""},
    {"start", "serve", ""},
    {"cli", "chat", ""},
    {"collect-env", "version", ""},
    {"ps", "", "no model is loaded in the background; quire top shows a running server"},
    {"stop", "", "end the server with Ctrl-C or SIGTERM"},
    {"create", "",
     "there is no Modelfile: flags or a YAML file (--config FILE) set parameters; quire quantize MODEL -o "
     "DIR "
     "--format gguf-q4_k quantizes"},
    {"cp", "", "models are files: copy the directory or the GGUF file that quire pull prints"},
    {"push", "", "quire uploads nothing; use huggingface-cli upload"},
    {"signin", "", "set HF_TOKEN for gated and private models"},
    {"login", "", "set HF_TOKEN for gated and private models"},
    {"launch", "", "quire serve starts a server for any client of OpenAI's API"},
    {"embed", "", "quire serve MODEL, then POST /v1/embeddings"},
    {"search", "", "search on https://huggingface.co/models, then quire run org/name"},
    {"run-batch", "", "quire generate MODEL --prompts-file FILE.jsonl --json reads JSON lines"},
    {"convert", "",
     "checkpoints are loaded directly; quire quantize MODEL -o DIR --format gguf-bf16 writes GGUF"},
};

constexpr ForeignValueName kForeignValues[] = {
    {"--dtype", "half", "float16"},
    {"--dtype", "fp16", "float16"},
    {"--dtype", "f16", "float16"},
    {"--dtype", "bf16", "bfloat16"},
    {"--dtype", "float", "float32"},
    {"--dtype", "fp32", "float32"},
    {"--dtype", "f32", "float32"},
    {"--kv-cache-dtype", "fp8", "fp8_e4m3"},
    {"--kv-cache-dtype", "half", "float16"},
    {"--kv-cache-dtype", "fp16", "float16"},
    {"--kv-cache-dtype", "f16", "float16"},
    {"--kv-cache-dtype", "bf16", "bfloat16"},
    {"--kv-cache-dtype", "float", "float32"},
    {"--kv-cache-dtype", "f32", "float32"},
    {"--kv-cache-dtype", "q8_0", "int8"},
    {"--device", "none", "cpu"},
    {"--max-model-len", "auto", "0"},
    {"--max-model-len", "-1", "0"},
    {"--generation-config", "vllm", "none"},
    {"--runner", "embed", "pooling"},
    {"--runner", "embedding", "pooling"},
    {"--runner", "classify", "pooling"},
    {"--runner", "score", "pooling"},
    {"--runner", "reward", "pooling"},
    {"--runner", "none", "auto"},
    {"--log-level", "warn", "warning"},
    {"--log-level", "critical", "error"},
    {"--log-level", "trace", "debug"},
};

}  // namespace

std::span<const ForeignFlag> foreign_flags(Origin origin) {
  switch (origin) {
    case Origin::kVllm:
      return kVllmFlags;
    case Origin::kLlamaCpp:
      return kLlamaCppFlags;
    case Origin::kOllama:
      return kOllamaFlags;
  }
  return {};
}

std::span<const ForeignCommand> foreign_commands() {
  return kForeignCommands;
}

std::span<const ForeignValueName> foreign_values() {
  return kForeignValues;
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

const ForeignFlag* find_foreign_flag(std::string_view name, std::string_view command) {
  const ForeignFlag* found = nullptr;
  for (const Origin origin : {Origin::kLlamaCpp, Origin::kOllama, Origin::kVllm}) {
    for (const ForeignFlag& flag : foreign_flags(origin)) {
      if (!has_word(flag.names, name)) continue;
      if (!flag.commands.empty() && has_word(flag.commands, command)) return &flag;
      if (flag.commands.empty() && found == nullptr) found = &flag;
    }
  }
  return found;
}

}  // namespace quire::cli
