#include "cublaslt.h"

#include <dlfcn.h>
#include <library_types.h>

#include <cstdint>
#include <stdexcept>

namespace probe {
namespace {

// The part of cuBLASLt's binary interface that is used here. Its header is in a package of 540 MB.
using Status = int;  // 0 = success
using Handle = void*;
struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};
constexpr int kCompute32F = 68, kTransposed = 1;
constexpr int kDescTransA = 3, kPreferenceMaxWorkspace = 1, kConfigSplitK = 2;

struct Functions {
  Status (*cublasLtCreate)(Handle*);
  Status (*cublasLtDestroy)(Handle);
  size_t (*cublasLtGetVersion)();
  const char* (*cublasLtGetStatusString)(Status);
  Status (*cublasLtMatmulDescCreate)(void**, int compute_type, int scale_type);
  Status (*cublasLtMatmulDescDestroy)(void*);
  Status (*cublasLtMatmulDescSetAttribute)(void*, int attribute, const void* value, size_t bytes);
  Status (*cublasLtMatrixLayoutCreate)(void**, int type, uint64_t rows, uint64_t columns, int64_t stride);
  Status (*cublasLtMatrixLayoutDestroy)(void*);
  Status (*cublasLtMatmulPreferenceCreate)(void**);
  Status (*cublasLtMatmulPreferenceDestroy)(void*);
  Status (*cublasLtMatmulPreferenceSetAttribute)(void*, int attribute, const void* value, size_t bytes);
  Status (*cublasLtMatmulAlgoGetHeuristic)(Handle, void* operation, void* a, void* b, void* c, void* d,
                                           void* preference, int requested, HeuristicResult* results,
                                           int* found);
  Status (*cublasLtMatmulAlgoConfigGetAttribute)(const Algorithm*, int attribute, void* value, size_t bytes,
                                                 size_t* written);
  Status (*cublasLtMatmul)(Handle, void* operation, const void* alpha, const void* a, void* a_layout,
                           const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                           void* d, void* d_layout, const Algorithm*, void* workspace, size_t workspace_bytes,
                           cudaStream_t);
};

// Calls visit(name, function pointer) for each function.
template <class Visit>
void visit_functions(Functions& f, Visit visit) {
#define VISIT(name) visit(#name, f.name)
  VISIT(cublasLtCreate);
  VISIT(cublasLtDestroy);
  VISIT(cublasLtGetVersion);
  VISIT(cublasLtGetStatusString);
  VISIT(cublasLtMatmulDescCreate);
  VISIT(cublasLtMatmulDescDestroy);
  VISIT(cublasLtMatmulDescSetAttribute);
  VISIT(cublasLtMatrixLayoutCreate);
  VISIT(cublasLtMatrixLayoutDestroy);
  VISIT(cublasLtMatmulPreferenceCreate);
  VISIT(cublasLtMatmulPreferenceDestroy);
  VISIT(cublasLtMatmulPreferenceSetAttribute);
  VISIT(cublasLtMatmulAlgoGetHeuristic);
  VISIT(cublasLtMatmulAlgoConfigGetAttribute);
  VISIT(cublasLtMatmul);
#undef VISIT
}

void* open_library(const std::string& path) {
  if (!path.empty()) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw std::runtime_error("cannot open " + path + ": " + dlerror());
  }
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw std::runtime_error(
      "cannot find libcublasLt.so.13 or libcublasLt.so.12; pass its path with --cublaslt");
}

}  // namespace

struct CublasLt::State {
  void* library = nullptr;
  Functions f{};
  Handle handle = nullptr;

  ~State() {
    if (handle != nullptr) f.cublasLtDestroy(handle);
    if (library != nullptr) dlclose(library);
  }
  void check(Status status, const char* attempt) const {
    if (status != 0)
      throw std::runtime_error(std::string(attempt) + ": " + f.cublasLtGetStatusString(status));
  }
};

CublasLt::CublasLt(const std::string& path) : state_(std::make_unique<State>()) {
  state_->library = open_library(path);
  visit_functions(state_->f, [this](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(state_->library, name));
    if (function == nullptr) throw std::runtime_error(std::string("cuBLASLt has no function ") + name);
  });
}
CublasLt::~CublasLt() = default;

void CublasLt::create_context() {
  state_->check(state_->f.cublasLtCreate(&state_->handle), "creating a context of cuBLASLt");
}

std::string CublasLt::version() const {
  const size_t version = state_->f.cublasLtGetVersion();
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::vector<std::string> cublaslt_functions() {
  Functions f{};
  std::vector<std::string> names;
  visit_functions(f, [&](const char* name, auto&) { names.emplace_back(name); });
  return names;
}

struct CublasLtGemm::State {
  const CublasLt::State* library;
  void* operation = nullptr;
  void* w = nullptr;  // layouts
  void* x = nullptr;
  void* y = nullptr;
  HeuristicResult chosen{};
  size_t workspace_bytes = 0;

  ~State() {
    for (void* layout : {w, x, y}) {
      if (layout != nullptr) library->f.cublasLtMatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) library->f.cublasLtMatmulDescDestroy(operation);
  }
};

CublasLtGemm::CublasLtGemm(const CublasLt& library, OperandType type, int num_tokens, int num_features, int k,
                           size_t workspace_bytes)
    : state_(std::make_unique<State>()) {
  const CublasLt::State& lt = *library.state_;
  State& s = *state_;
  s.library = &lt;
  s.workspace_bytes = workspace_bytes;
  lt.check(lt.f.cublasLtMatmulDescCreate(&s.operation, kCompute32F, CUDA_R_32F), "describing a product");
  lt.check(lt.f.cublasLtMatmulDescSetAttribute(s.operation, kDescTransA, &kTransposed, sizeof(kTransposed)),
           "describing a product");
  // The library's matrices are stored by columns, so each has its dimensions swapped, and w comes first.
  const int operand = type == OperandType::kBf16 ? CUDA_R_16BF : CUDA_R_16F;
  const auto tokens = static_cast<uint64_t>(num_tokens), features = static_cast<uint64_t>(num_features),
             depth = static_cast<uint64_t>(k);
  lt.check(lt.f.cublasLtMatrixLayoutCreate(&s.w, operand, depth, features, k), "describing the weights");
  lt.check(lt.f.cublasLtMatrixLayoutCreate(&s.x, operand, depth, tokens, k), "describing the activations");
  lt.check(lt.f.cublasLtMatrixLayoutCreate(&s.y, CUDA_R_32F, features, tokens, num_features),
           "describing the result");

  void* preference = nullptr;
  lt.check(lt.f.cublasLtMatmulPreferenceCreate(&preference), "creating a preference");
  int found = 0;
  Status status = lt.f.cublasLtMatmulPreferenceSetAttribute(preference, kPreferenceMaxWorkspace,
                                                            &workspace_bytes, sizeof(workspace_bytes));
  if (status == 0)
    status = lt.f.cublasLtMatmulAlgoGetHeuristic(lt.handle, s.operation, s.w, s.x, s.y, s.y, preference, 1,
                                                 &s.chosen, &found);
  lt.f.cublasLtMatmulPreferenceDestroy(preference);
  lt.check(status, "choosing an algorithm");
  if (found == 0) throw std::runtime_error("cuBLASLt has no algorithm for this product");
}
CublasLtGemm::~CublasLtGemm() = default;

int CublasLtGemm::split_k() const {
  int32_t splits = 0;
  size_t written = 0;
  state_->library->check(state_->library->f.cublasLtMatmulAlgoConfigGetAttribute(
                             &state_->chosen.algorithm, kConfigSplitK, &splits, sizeof(splits), &written),
                         "reading the splits of an algorithm");
  return splits > 1 ? splits : 1;
}

void CublasLtGemm::run(float* y, const void* x, const void* w, void* workspace, cudaStream_t stream) const {
  const State& s = *state_;
  const float alpha = 1.0F, beta = 0.0F;
  s.library->check(
      s.library->f.cublasLtMatmul(s.library->handle, s.operation, &alpha, w, s.w, x, s.x, &beta, y, s.y, y,
                                  s.y, &s.chosen.algorithm, workspace, s.workspace_bytes, stream),
      "running a product");
}

}  // namespace probe
