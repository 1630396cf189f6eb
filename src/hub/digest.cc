#include "hub/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings.h"

namespace quire::hub {
namespace {

EVP_MD_CTX* context_of(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

}  // namespace

void Digest::Free::operator()(void* context) const {
  EVP_MD_CTX_free(context_of(context));
}

Digest::Digest(bool sha256) : context_(EVP_MD_CTX_new()) {
  if (!context_ ||
      EVP_DigestInit_ex(context_of(context_.get()), sha256 ? EVP_sha256() : EVP_sha1(), nullptr) != 1)
    throw Error("cannot compute hashes: OpenSSL has no SHA-1 or SHA-256");
}

Digest Digest::sha256() {
  return Digest(true);
}

Digest Digest::git_blob(uint64_t size) {
  Digest digest(false);
  std::string head = cat("blob ", size);
  head += '\0';
  digest.update(head);
  return digest;
}

Digest Digest::for_etag(std::string_view etag, uint64_t size) {
  return etag.size() == 64 ? sha256() : git_blob(size);
}

void Digest::update(std::string_view bytes) {
  EVP_DigestUpdate(context_of(context_.get()), bytes.data(), bytes.size());
}

std::string Digest::finish() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  EVP_DigestFinal_ex(context_of(context_.get()), bytes.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string hash_of_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  const bool hex =
      std::ranges::all_of(etag, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return hex && (etag.size() == 40 || etag.size() == 64) ? std::string(etag) : std::string();
}

}  // namespace quire::hub
