# Third-party libraries, all from Debian 12 (scripts/setup.sh). ARCHITECTURE.md says why each was chosen.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_package(CLI11 REQUIRED)
find_library(LLMD_MIMALLOC mimalloc)

# Asio is used header-only with its implementation compiled once, in src/io.
add_library(llmd_boost INTERFACE)
target_link_libraries(llmd_boost INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(llmd_boost INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED
  BOOST_ASIO_DISABLE_BOOST_COROUTINE BOOST_BEAST_SEPARATE_COMPILATION)

if(LLMD_TESTS OR LLMD_FUZZ)
  find_package(simdjson REQUIRED)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  enable_testing()
endif()
if(LLMD_BENCHES)
  find_package(benchmark REQUIRED)
endif()
