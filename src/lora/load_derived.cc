#include "lora/load_derived.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace quire::lora {
namespace {

// A view of memory that several sites share.
Buffer share(const std::shared_ptr<const Buffer>& memory) {
  return Buffer::borrowed({memory->data(), memory->size()}, memory);
}

// out = the B of a piece, whose element [output, j] is at(output, j).
template <typename Element, typename At>
void fill_b(const LowRank::Piece& piece, Buffer& out, const At& at) {
  for (int64_t output = 0; output < piece.n; ++output) {
    for (int64_t j = 0; j < piece.rank; ++j) out.as<Element>()[b_index(piece, output, j)] = at(output, j);
  }
}

// For a derived matrix that has the rows of the module's as they are: B is these rows of the module's B.
template <typename Element>
void take_rows(const SourceRows& part, const LowRank::Piece& piece, const Element* b, Buffer& out) {
  fill_b<Element>(piece, out,
                  [&](int64_t output, int64_t j) { return b[(part.begin + output) * piece.rank + j]; });
}

// The same for transposed ones, in which (B A)ᵀ = Aᵀ Bᵀ: A is Bᵀ, with zeros for the other columns.
template <typename Element>
void take_columns(const SourceRows& part, const LowRank::Piece& piece, int64_t k, const Element* b,
                  Buffer& out) {
  for (int64_t j = 0; j < piece.rank; ++j) {
    for (int64_t i = 0; i < part.count; ++i)
      out.as<Element>()[j * k + i] = b[(part.begin + i) * piece.rank + j];
  }
}

}  // namespace

DerivedLoader::Module DerivedLoader::read(const PlannedModule& planned, DType dtype) {
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(elements) * dtype_size(dtype); };
  Buffer a(bytes(planned.rank * planned.in));
  values_.read(planned.a, dtype, a.data());
  Module module{.dtype = dtype,
                .a = std::make_shared<const Buffer>(std::move(a)),
                .a_as_b = nullptr,
                .b = Buffer(bytes(planned.out * planned.rank))};
  values_.read(planned.b, dtype, module.b.data());
  return module;
}

std::unique_ptr<LowRank> DerivedLoader::load(const SitePlan& site) {
  const SitePlan::Piece& own = site.pieces.front();
  const PlannedModule& planned = *own.module;
  const AdapterRange& range = *own.range;
  const SourceRows& part = *range.part;
  const auto found = modules_.find(&planned);
  Module& module = found != modules_.end() ? found->second : modules_[&planned] = read(planned, site.dtype);
  auto out = std::make_unique<LowRank>();
  out->k = range.in;
  out->dtype = site.dtype;
  const LowRank::Piece piece{range.out_begin, range.rows, planned.rank, planned.scale};
  out->pieces = {piece};
  const auto fill = [&]<typename Element>(const Element* b) {
    if (!part.transposed) {
      out->a = share(module.a);
      out->b = Buffer(static_cast<size_t>(site.b_bytes()));
      return take_rows(part, piece, b, out->b);
    }
    out->a = Buffer(static_cast<size_t>(site.a_bytes()));
    take_columns(part, piece, range.in, b, out->a);
    if (module.a_as_b == nullptr) {
      Buffer ordered(static_cast<size_t>(site.b_bytes()));
      const auto* a = module.a->as<Element>();
      fill_b<Element>(piece, ordered, [&](int64_t output, int64_t j) { return a[j * planned.in + output]; });
      module.a_as_b = std::make_shared<const Buffer>(std::move(ordered));
    }
    out->b = share(module.a_as_b);
  };
  if (site.dtype == DType::kF32) {
    fill(module.b.as<float>());
  } else {
    fill(module.b.as<uint16_t>());
  }
  if (site.has_bias) {
    std::vector<float> bias(static_cast<size_t>(planned.out));
    values_.read(*planned.bias, DType::kF32, reinterpret_cast<std::byte*>(bias.data()));
    out->bias = Buffer(static_cast<size_t>(site.bias_bytes()));
    for (int64_t i = 0; i < part.count; ++i)
      out->bias.as<float>()[range.out_begin + i] = planned.scale * bias[static_cast<size_t>(part.begin + i)];
  }
  // The sites of a module are loaded in order.
  if (own.number + 1 == static_cast<int64_t>(planned.ranges.size())) modules_.erase(&planned);
  return out;
}

}  // namespace quire::lora
