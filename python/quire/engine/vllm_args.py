"""Arguments of vLLM's engine that are not fields of `EngineArgs`: accepted without effect, or not available."""

from __future__ import annotations

from typing import Any

#: Arguments that change neither results nor limits on this device, with their defaults. Any value is accepted.
HARMLESS: dict[str, Any] = {
    # One process computes on one device.
    "cp_kv_cache_interleave_size": None, "cpu_distributed_timeout_seconds": None, "data_parallel_address": None,
    "data_parallel_backend": "mp", "data_parallel_external_lb": False, "data_parallel_hybrid_lb": False,
    "data_parallel_multi_port_external_lb": False, "data_parallel_rank": None, "data_parallel_rpc_port": None,
    "data_parallel_size_local": None, "data_parallel_start_rank": None, "dbo_decode_token_threshold": 32,
    "dbo_prefill_token_threshold": 512, "dcp_comm_backend": None, "dcp_kv_cache_interleave_size": 1,
    "dcp_q_replicate": None, "device_ids": None, "disable_custom_all_reduce": False,
    "disable_nccl_for_dp_synchronization": None, "distributed_executor_backend": None,
    "distributed_timeout_seconds": None, "dp_sync_interval": 1, "elastic_ep_max_dp_size": 0,
    "enable_batch_sharded_sampling": None, "enable_dbo": False, "enable_elastic_ep": False,
    "enable_ep_weight_filter": False, "enable_eplb": False, "enable_expert_parallel": False,
    "enable_fault_tolerance": False, "enable_hc_sp": False, "enable_nccl_comm_suspend": False,
    "enable_shm_tensor_arena": False, "eplb_config": None, "expert_placement_strategy": "linear",
    "fault_tolerance_config": None, "master_addr": "127.0.0.1", "master_port": 29501,
    "max_parallel_loading_workers": None, "node_rank": 0, "ray_workers_use_nsight": False, "ubatch_size": 0,
    "worker_cls": "auto", "worker_extension_cls": "",
    # Kernels, graphs, compilation and where memory lies.
    "allow_deprecated_quantization": False, "async_scheduling": None, "attention_backend": None,
    "attention_config": None, "compilation_config": None, "cpu_offload_gb": 0.0, "cpu_offload_params": None,
    "cudagraph_capture_sizes": None, "disable_cascade_attn": None, "disable_hybrid_kv_cache_manager": None,
    "enable_cumem_allocator": False, "enable_flashinfer_autotune": None,
    "enable_mamba_cache_stochastic_rounding": False, "enable_mamba_shared_prefix_checkpoint": False,
    "enforce_eager": False, "gdn_prefill_backend": None, "gpu_memory_utilization": 0.92, "ir_op_priority": None,
    "kda_decode_backend": None, "kda_prefill_backend": None, "kernel_config": None,
    "kv_offloading_backend": "native", "kv_sharing_fast_prefill": False, "linear_backend": "auto",
    "mamba_backend": None, "mamba_block_size": None, "mamba_cache_dtype": "auto",
    "mamba_cache_mode": None, "mamba_cache_philox_rounds": 0, "mamba_config": None, "mamba_ssm_cache_dtype": "auto",
    "mamba_ssu_algorithm": None, "max_cudagraph_capture_size": None, "moe_backend": "auto", "monokernel": None,
    "numa_bind": False, "numa_bind_cpus": None, "numa_bind_nodes": None, "offload_backend": "auto",
    "offload_group_size": 0, "offload_num_in_group": 1, "offload_params": None, "offload_prefetch_step": 1,
    "optimization_level": 2, "performance_mode": "balanced", "prefix_caching_hash_algo": "sha256",
    "replayssm_buffer_len": 0, "sleep_mode_backend": "cumem", "sleep_mode_offload_cudagraph": False,
    "sleep_preserve_parameter_names": None, "sparse_indexer_topk_backend": "auto", "swa_bounded_replay": False,
    "use_replayssm": False,
    # How steps are put together.
    "disable_chunked_mm_input": False, "enable_chunked_prefill": None, "long_prefill_token_threshold_adaptive": False,
    "max_num_active_seqs": None, "max_num_scheduled_tokens": None, "prefill_schedule_interval": 1,
    "prefix_cache_retention_interval": None, "prefix_match_unit": None, "scheduler_reserve_full_isl": True,
    "watermark": 0.0,
    # Files of the model.
    "code_revision": None, "config_format": "auto", "ignore_patterns": None, "model_loader_extra_config": None,
    "pt_load_map_location": "cpu", "safetensors_load_strategy": None, "safetensors_prefetch_block_size": 0,
    "safetensors_prefetch_num_threads": 0, "trust_remote_code": False, "use_tqdm_on_load": True,
    # Images, audio and video. A prompt with such data is an error.
    "allowed_local_media_path": "", "allowed_media_domains": None, "ec_manager_config": None,
    "enable_mm_embeds": False, "enable_mm_processor_stats": False, "interleave_mm_strings": False,
    "language_model_only": False, "limit_mm_per_prompt": None, "media_io_kwargs": None,
    "mm_device_do_normalize": None, "mm_encoder_attn_backend": None, "mm_encoder_attn_dtype": None,
    "mm_encoder_tp_mode": "weights", "mm_hasher_algorithm": "blake3", "mm_ipc_gpu_memory_gb": 0.0,
    "mm_processor_cache_gb": 4.0, "mm_processor_cache_type": None, "mm_processor_device": "auto",
    "mm_processor_kwargs": None, "mm_shm_cache_max_object_size_mb": 128, "mm_tensor_ipc": "direct_rpc",
    "skip_mm_profiling": False, "video_pruning_method": "evs", "video_pruning_rate": None,
    # Details of features that are off.
    "default_mm_loras": None, "enable_mixed_moe_lora_format": False, "enable_moe_shared_loras": False,
    "enable_tower_connector_lora": False, "fully_sharded_loras": False, "lora_dtype": "auto",
    "lora_target_modules": None, "max_lora_cls_labels": None,
    "per_request_spec_decode_metrics": "none", "reasoning_config": None, "reasoning_parser": "",
    "reasoning_parser_plugin": None, "specialize_active_lora": False, "structured_outputs_config": None,
    # Logs, metrics and profiles.
    "additional_config": None, "aggregate_engine_logging": False, "aux_output_config": None,
    "collect_detailed_traces": None, "cudagraph_metrics": False, "custom_histogram_buckets": None,
    "disable_log_requests": True, "disable_log_stats": False, "enable_layerwise_nvtx_tracing": False,
    "enable_log_requests": False, "enable_logging_iteration_details": False, "enable_mfu_metrics": False,
    "fail_on_environ_validation": False, "jit_monitor_mode": "warn", "jit_monitor_verbose": False,
    "kv_cache_metrics": False, "kv_cache_metrics_sample": 0.01, "log_config_file": None, "log_level": None,
    "logging_config": None, "profiler_config": None, "renderer_num_workers": 1, "served_model_name": None,
    "show_hidden_metrics_for_version": None, "shutdown_timeout": 0, "tokens_only": False, "watchdog_config": None,
    # Of earlier versions.
    "cuda_graph_sizes": None, "max_seq_len_to_capture": 8192,
}

_ONE_DEVICE = "one process computes on one device; start a process per device or group of cores"
_CONFIG = "change the model's config.json"
_SPECULATION = "there is no speculative decoding"
_OFF = (False, None)
_NONE: tuple[Any, ...] = (None, {}, [])

#: Arguments that would change results or limits if they were ignored: the values that change nothing, vLLM's default
#: first, and the reason or the counterpart.
UNAVAILABLE: dict[str, tuple[tuple[Any, ...], str]] = {
    "data_parallel_size": ((1,), _ONE_DEVICE),
    "decode_context_parallel_size": ((1,), _ONE_DEVICE),
    "diffusion_config": (_NONE, "diffusion models are not supported"),
    "disable_sliding_window": (_OFF, "layers with sliding windows always use them"),
    "ec_transfer_config": (_NONE, "there is no transfer between engines"),
    "enable_prompt_embeds": (_OFF, "prompts are text or token ids"),
    "enable_return_routed_experts": (_OFF, "the experts of tokens are not returned"),
    "enable_sleep_mode": (_OFF, "shutdown() frees the model"),
    "enable_trace_replay": (_OFF, "there is no replay of traces"),
    "engram_config": (_NONE, "this architecture is not supported"),
    "hf_config_path": ((None,), "the config.json of the model is used"),
    "hf_overrides": (_NONE, _CONFIG),
    "io_processor_plugin": ((None, ""), "there are no plugins"),
    "kv_cache_dtype_skip_layers": ((None, []), "kv_cache_dtype is the type of all layers"),
    "kv_events_config": (_NONE, "events of the KV cache are not published"),
    "kv_transfer_config": (_NONE, "there is no transfer between engines; kv_disk_cache keeps prefixes on a disk"),
    "load_format": (("auto", "hf", "safetensors", "gguf", "fastsafetensors"),
                    "safetensors and GGUF files are recognized, and there are no random weights"),
    "logits_processors": (_NONE, "there is no code of users in the sampler; use logit_bias or allowed_token_ids"),
    "max_num_queued_tokens": ((None,), "use max_num_queued_reqs"),
    "mm_encoder_only": (_OFF, "there are no encoders of images, audio and video"),
    "model_class_overrides": (_NONE, "the architecture of the model is used"),
    "model_impl": (("auto", "vllm"), "there is one implementation of each architecture"),
    "model_weights": (("", None), "weights and config.json are in the same directory"),
    "nnodes": ((1,), _ONE_DEVICE),
    "num_gpu_blocks_override": ((None,), "use kv_cache_memory_bytes"),
    "otlp_traces_endpoint": ((None,), "traces are not exported"),
    "pipeline_parallel_size": ((1,), _ONE_DEVICE),
    "pooler_config": (_NONE, "the pooling of the model's files is used; PoolingParams selects activation and dimensions"),
    "prefill_context_parallel_size": ((1,), _ONE_DEVICE),
    "quantization_config": (_NONE, "the format is read from the checkpoint, and quantization='int8' quantizes floats"),
    "return_sampling_mask": (_OFF, "logprobs_mode='processed_logprobs' gives excluded tokens -inf"),
    "rope_scaling": (_NONE, _CONFIG),
    "rope_theta": ((None,), _CONFIG),
    "scheduler_cls": ((None,), "use scheduling_policy"),
    "spec_method": ((None,), _SPECULATION),
    "spec_model": ((None,), _SPECULATION),
    "spec_tokens": ((None,), _SPECULATION),
    "speculative_config": (_NONE, _SPECULATION),
    "task": (("auto", None, "generate"), "use runner='pooling' for embeddings"),
    "tensor_parallel_size": ((1,), _ONE_DEVICE),
    "tokenizer_mode": (("auto", "hf", "slow"), "the model's own tokenizer is used"),
    "watermark_config": (_NONE, "outputs are not watermarked"),
    "weight_transfer_config": (_NONE, "weights are loaded from files once"),
}
