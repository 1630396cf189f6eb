// Hashes of files on the hub: SHA-256 for large files, the SHA-1 of a Git blob for small ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace quire::hub {

class Digest {
 public:
  static Digest sha256();
  // SHA-1 over "blob SIZE\0" and the content, as `git hash-object` computes it.
  static Digest git_blob(uint64_t size);
  // The digest whose hexadecimal form has the length of `etag`: 64 = SHA-256, 40 = Git blob.
  static Digest for_etag(std::string_view etag, uint64_t size);

  void update(std::string_view bytes);
  std::string finish();  // lowercase hexadecimal; call once

 private:
  struct Free {
    void operator()(void* context) const;
  };
  explicit Digest(bool sha256);
  std::unique_ptr<void, Free> context_;  // EVP_MD_CTX
};

// An ETag without W/ and quotes if it is a SHA-256 or Git hash in lowercase hexadecimal; otherwise empty.
// Only these become file names.
std::string hash_of_etag(std::string_view etag);

}  // namespace quire::hub
