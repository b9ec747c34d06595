#pragma once

#include "tls/certificate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

/// Certificates and their files for tests.
namespace llmd::tls::testing {

inline WallTime from_now(Nanos d) {
  return real_clock().wall() + d;
}

/// Signs certificates; they are valid from an hour ago for an hour unless told otherwise.
class Authority {
 public:
  explicit Authority(std::string name = "authority")
      : pair_(make({.organization = {},
                    .common_name = std::move(name),
                    .names = {},
                    .valid_from = from_now(-std::chrono::hours(1)),
                    .valid_until = from_now(std::chrono::hours(1)),
                    .authority = true},
                   nullptr)) {}

  PemPair issue(std::vector<std::string> names, Nanos until = std::chrono::hours(1)) const {
    return make({.organization = {},
                 .common_name = "leaf",
                 .names = std::move(names),
                 .valid_from = from_now(-std::chrono::hours(1)),
                 .valid_until = from_now(until)},
                &pair_);
  }
  const std::string& certificate() const { return pair_.certificate; }

 private:
  static PemPair make(const CertificateSpec& spec, const PemPair* issuer) {
    auto made = make_certificate(spec, issuer);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  PemPair pair_;
};

/// A directory that goes with its owner.
class Directory {
 public:
  Directory() {
    std::string name = ::testing::TempDir() + "tls-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string path(const std::string& file) const { return path_ + "/" + file; }
  /// Writes over `file`, making its folders; returns its path.
  std::string write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    std::ofstream(path(file), std::ios::binary) << text;
    return path(file);
  }

 private:
  std::string path_;
};

}  // namespace llmd::tls::testing
