// cuBLASLt as a baseline. The library is opened at run time, because it has 540 MB and many machines lack it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "../arithmetic.h"

namespace probe {

class CublasLt {
 public:
  // An empty path searches the library as the dynamic linker does. Throws std::runtime_error if the library
  // cannot be opened or lacks a function.
  explicit CublasLt(const std::string& path);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Creates the library's context on the current device. Throws std::runtime_error.
  void create_context();
  std::string version() const;

 private:
  friend class CublasLtGemm;
  struct State;
  std::unique_ptr<State> state_;
};

// y = x wᵀ with the algorithm that the library's heuristic puts first: x [num_tokens, k] and w [num_features,
// k], y [num_tokens, num_features] in float32. Throws std::runtime_error.
class CublasLtGemm {
 public:
  CublasLtGemm(const CublasLt& library, OperandType type, int num_tokens, int num_features, int k,
               size_t workspace_bytes);
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  int split_k() const;  // 1 = each sum is computed by one block
  // `workspace` has workspace_bytes.
  void run(float* y, const void* x, const void* w, void* workspace, cudaStream_t stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Names of the functions that are opened.
std::vector<std::string> cublaslt_functions();

}  // namespace probe
