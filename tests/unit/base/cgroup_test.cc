// Limits of control groups, in file systems as Linux shows them on hosts and in containers.
#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace quire {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

class Cgroup : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void limit_v2(const std::string& folder, const std::string& max, int64_t used, int64_t of_files = 0) {
    write(folder + "/memory.max", max + "\n");
    write(folder + "/memory.current", std::to_string(used) + "\n");
    write(folder + "/memory.stat", "anon 5\nactive_file 0\ninactive_file " + std::to_string(of_files) + "\n");
  }
  void limit_v1(const std::string& folder, int64_t limit, int64_t used, int64_t hierarchical) {
    write(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(folder + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    write(folder + "/memory.stat", "cache 1\nhierarchical_memory_limit " + std::to_string(hierarchical) +
                                       "\ntotal_active_file 0\ntotal_inactive_file 0\n");
  }
  std::optional<int64_t> free_memory() const { return cgroup_free_memory(root_.path()); }
  std::optional<double> cpus() const { return cgroup_cpus(root_.path()); }

  static constexpr const char* kHostV2 =
      "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
  static constexpr const char* kHostV1 =
      "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
      "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "34 30 0:30 / /sys/fs/cgroup/memory rw shared:15 - cgroup cgroup rw,memory\n";
  static constexpr int64_t kNone = 9223372036854771712;  // of version 1

  test::TempDir root_;
};

TEST_F(Cgroup, NothingIsLimitedWithoutGroups) {
  EXPECT_EQ(free_memory(), std::nullopt);
  write("proc/self/cgroup", "0::/\n");
  write("proc/self/mountinfo", kHostV2);
  EXPECT_EQ(free_memory(), std::nullopt) << "the root group has no limit files";
  EXPECT_EQ(cpus(), std::nullopt);
}

TEST_F(Cgroup, ReadsTheGroupOfTheProcess) {
  write("proc/self/mountinfo", kHostV2);
  write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  limit_v2("sys/fs/cgroup/user.slice", "max", 9 * kGiB);
  limit_v2("sys/fs/cgroup/user.slice/job.scope", std::to_string(kGiB), kGiB / 2, kGiB / 4);
  EXPECT_EQ(free_memory(), kGiB * 3 / 4) << "the page cache counts as free";
}

TEST_F(Cgroup, ReadsTheGroupsAboveIt) {
  write("proc/self/mountinfo", kHostV2);
  write("proc/self/cgroup", "0::/big.slice/small.slice/job.service/worker\n");
  const std::string slice = "sys/fs/cgroup/big.slice/small.slice";
  limit_v2("sys/fs/cgroup/big.slice", std::to_string(8 * kGiB), 4 * kGiB);
  limit_v2(slice, std::to_string(2 * kGiB), kGiB);
  limit_v2(slice + "/job.service", "max", kGiB);
  write(slice + "/cpu.max", "150000 100000\n");
  write(slice + "/job.service/cpu.max", "max 100000\n");
  EXPECT_EQ(free_memory(), kGiB);
  EXPECT_EQ(cpus(), 1.5);
  // Memory of others in a group counts.
  limit_v2("sys/fs/cgroup/big.slice", std::to_string(8 * kGiB), 9 * kGiB);
  EXPECT_EQ(free_memory(), 0);
}

TEST_F(Cgroup, TheThresholdOfThrottlingIsALimit) {
  write("proc/self/mountinfo", kHostV2);
  write("proc/self/cgroup", "0::/job\n");
  limit_v2("sys/fs/cgroup/job", std::to_string(4 * kGiB), kGiB);
  write("sys/fs/cgroup/job/memory.high", std::to_string(3 * kGiB));
  EXPECT_EQ(free_memory(), 2 * kGiB);
}

TEST_F(Cgroup, ReadsVersion1) {
  write("proc/self/mountinfo", kHostV1);
  write("proc/self/cgroup", "5:memory:/slurm/job7/step\n4:cpu,cpuacct:/slurm/job7\n1:name=systemd:/x\n");
  limit_v1("sys/fs/cgroup/memory/slurm/job7/step", kNone, kGiB, kNone);
  limit_v1("sys/fs/cgroup/memory/slurm/job7", 3 * kGiB, kGiB, kNone);
  limit_v1("sys/fs/cgroup/memory", kNone, 60 * kGiB, kNone);
  write("sys/fs/cgroup/cpu,cpuacct/slurm/job7/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu,cpuacct/slurm/job7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(free_memory(), 2 * kGiB);
  EXPECT_EQ(cpus(), 4.0);
}

TEST_F(Cgroup, ReadsVersion1InAContainer) {
  // The path is the host's; the mount shows the container's group only.
  write("proc/self/mountinfo",
        "40 30 0:30 /docker/3f9a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "41 30 0:29 /docker/3f9a /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
  write("proc/self/cgroup", "5:memory:/docker/3f9a\n4:cpu,cpuacct:/docker/3f9a\n");
  limit_v1("sys/fs/cgroup/memory", kNone, kGiB, 4 * kGiB);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(free_memory(), 3 * kGiB) << "of a group above, which is not visible";
  EXPECT_EQ(cpus(), std::nullopt);
  write("proc/self/cgroup", "5:memory:/elsewhere\n");
  EXPECT_EQ(free_memory(), 3 * kGiB) << "the mounted group, for any path";
}

TEST_F(Cgroup, ReadsVersion2InAContainer) {
  write("proc/self/mountinfo", "40 30 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  for (const char* path : {"0::/\n", "0::/../../outside\n"}) {
    write("proc/self/cgroup", path);
    limit_v2("sys/fs/cgroup", std::to_string(kGiB), 0);
    EXPECT_EQ(free_memory(), kGiB) << path;
  }
  // Without a namespace: the host's path, and the container's group mounted.
  write("proc/self/mountinfo", "40 30 0:26 /kube/pod\\040a /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write("proc/self/cgroup", "0::/kube/pod a/main\n");
  limit_v2("sys/fs/cgroup/main", std::to_string(kGiB / 2), 0);
  EXPECT_EQ(free_memory(), kGiB / 2);
}

TEST_F(Cgroup, ReadsBothVersionsAtOnce) {
  write("proc/self/mountinfo",
        std::string(kHostV1) + "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n");
  write("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/\n0::/job\n");
  limit_v1("sys/fs/cgroup/memory/job", 2 * kGiB, 0, 2 * kGiB);
  write("sys/fs/cgroup/unified/job/cgroup.procs", "1\n");
  EXPECT_EQ(free_memory(), 2 * kGiB);
}

TEST_F(Cgroup, UsesTheUsualPlacesWithoutMountinfo) {
  write("proc/self/cgroup", "0::/job\n3:memory:/old\n");
  limit_v2("sys/fs/cgroup/job", std::to_string(2 * kGiB), 0);
  EXPECT_EQ(free_memory(), 2 * kGiB);
  limit_v1("sys/fs/cgroup/memory/old", kGiB, 0, kGiB);
  EXPECT_EQ(free_memory(), kGiB);
}

}  // namespace
}  // namespace quire
