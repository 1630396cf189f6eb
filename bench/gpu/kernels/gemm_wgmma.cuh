// One kernel of programs/gemm_wgmma.h, assembled from CUTLASS's collectives.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "../programs/gemm_wgmma.h"

namespace probe::wgmma {

template <class T, int kTileFeatures, int kTileTokens>
struct Kernel {
  // Two consumer warp groups share a tile of 128 features.
  static constexpr bool kCooperative = kTileFeatures == 128;
  using EpilogueSchedule = std::conditional_t<kCooperative, cutlass::epilogue::TmaWarpSpecializedCooperative,
                                              cutlass::epilogue::TmaWarpSpecialized>;
  using MainloopSchedule =
      std::conditional_t<kCooperative, cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                         cutlass::gemm::KernelTmaWarpSpecialized>;
  // CUTLASS's rows are features and its columns are tokens, so yᵀ is stored by columns.
  using TileShape = cute::Shape<cute::Int<kTileFeatures>, cute::Int<kTileTokens>, cute::_64>;
  using ClusterShape = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::ColumnMajor, 4,
      float, cutlass::layout::ColumnMajor, 4, EpilogueSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, T, cutlass::layout::RowMajor, 8, T,
      cutlass::layout::ColumnMajor, 8, float, TileShape, ClusterShape,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Epilogue::SharedStorage))>,
      MainloopSchedule>::CollectiveOp;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>>;
};

template <class T, int kTileFeatures, int kTileTokens>
void run(const WgmmaProblem& problem, cudaStream_t stream) {
  using Gemm = typename Kernel<T, kTileFeatures, kTileTokens>::Gemm;
  using Inner = typename Gemm::GemmKernel;
  const int m = problem.num_features, n = problem.num_tokens, k = problem.k;
  const auto stride = [](auto type, int rows, int columns) {
    return cutlass::make_cute_packed_stride(type, cute::make_shape(rows, columns, 1));
  };
  // The multiprocessors are counted once: CUTLASS would do so at each launch.
  static const auto hardware = cutlass::KernelHardwareInfo::make_kernel_hardware_info<Inner>();
  const typename Gemm::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {static_cast<const T*>(problem.w), stride(typename Inner::StrideA{}, m, k),
       static_cast<const T*>(problem.x), stride(typename Inner::StrideB{}, n, k)},
      {{1.0F, 0.0F},
       nullptr,
       stride(typename Inner::StrideC{}, m, n),
       problem.y,
       stride(typename Inner::StrideD{}, m, n)},
      hardware};
  Gemm gemm;
  cutlass::Status status = gemm.can_implement(arguments);
  if (status == cutlass::Status::kSuccess && Gemm::get_workspace_size(arguments) != 0)
    throw std::runtime_error("the wgmma kernel unexpectedly needs a workspace");
  if (status == cutlass::Status::kSuccess) status = gemm.initialize(arguments, nullptr, stream);
  if (status == cutlass::Status::kSuccess) status = gemm.run(stream);
  if (status != cutlass::Status::kSuccess)
    throw std::runtime_error(std::string("CUTLASS cannot run the wgmma kernel: ") +
                             cutlassGetStatusString(status));
}

}  // namespace probe::wgmma
