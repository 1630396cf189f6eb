#include "io/quantized/module_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ModuleReader, RejectsBlockScalesWithASingleValue) {
  const std::string file =
      test::safetensors_file(R"({"m.weight":{"dtype":"F8_E4M3","shape":[2,8],"data_offsets":[0,16]},)"
                             R"("m.weight_scale_inv":{"dtype":"F32","shape":[],"data_offsets":[16,20]}})",
                             20);
  const std::string config = R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[2,8]}})";
  EXPECT_THAT(test::error_of([&] {
                Checkpoint::from_memory({"x", config, "", test::as_bytes(file)});
              }),
              AllOf(HasSubstr("m.weight_scale_inv"), HasSubstr("does not fit a weight of 1 blocks of rows")));
}

TEST(ModuleReader, RejectsSparseRowsWithInvalidOffsets) {
  // Arbitrary bytes, which are not the row offsets of two values.
  const std::string file =
      test::safetensors_file(R"({"m.qweight":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]},)"
                             R"("m.lookup_table":{"dtype":"F16","shape":[2,16],"data_offsets":[8,72]},)"
                             R"("m.rows":{"dtype":"I32","shape":[3],"data_offsets":[72,84]},)"
                             R"("m.cols":{"dtype":"I32","shape":[2],"data_offsets":[84,92]},)"
                             R"("m.vals":{"dtype":"F32","shape":[2],"data_offsets":[92,100]}})",
                             100);
  const std::string config = R"({"quantization_config":{"quant_method":"squeezellm","wbits":4}})";
  EXPECT_THAT(test::error_of([&] {
                Checkpoint::from_memory({"x", config, "", test::as_bytes(file)});
              }),
              AllOf(HasSubstr("m.rows"), HasSubstr("for row 0 of 2 values")));
}

}  // namespace
}  // namespace quire
