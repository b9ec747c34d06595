#include "io/buffer_pool.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::io {
namespace {

TEST(BufferPool, SteadyUseAllocatesOnce) {
  BufferPool pool;
  for (int i = 0; i < 10; ++i) {
    Buffer body = pool.take(400'000);
    EXPECT_GE(body.capacity(), 400'000u);
    Buffer chunk = pool.take();
    EXPECT_EQ(chunk.capacity(), BufferPool::kChunkBytes);
    EXPECT_EQ(chunk.size(), 0u);
  }
  EXPECT_EQ(pool.system_allocations(), 2u);
}

TEST(BufferPool, RetainsUpToItsLimit) {
  BufferPool pool(64 * 1024);
  {
    Buffer large = pool.take(1 << 20);
  }
  EXPECT_EQ(pool.retained_bytes(), 0u);
  {
    Buffer a = pool.take(40'000), b = pool.take(40'000);
  }
  EXPECT_EQ(pool.retained_bytes(), 64u * 1024);
}

TEST(Buffer, BelievesInADeclaredLengthOnceAChunkHasCome) {
  BufferPool pool;
  Buffer buffer = pool.take(1);
  buffer.append("x");
  buffer.reserve_declared(1, 400'000);
  EXPECT_EQ(buffer.capacity(), BufferPool::kChunkBytes);
  buffer.append(std::string(buffer.room_size(), 'y'));
  buffer.reserve_declared(1, 400'000);
  EXPECT_EQ(buffer.capacity(), 512u * 1024);
  EXPECT_EQ(buffer.view(), 'x' + std::string(BufferPool::kChunkBytes - 1, 'y'));
  buffer.append(std::string(buffer.room_size(), 'z'));
  buffer.reserve_declared(1, 400'000);  // more comes than was declared
  EXPECT_EQ(buffer.capacity(), 1024u * 1024);
}

TEST(Buffer, GrowsKeepingItsContent) {
  BufferPool pool;
  Buffer buffer = pool.take();
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece = std::to_string(i) + " ";
    expected += piece;
    buffer.append(piece);
  }
  EXPECT_EQ(buffer.view(), expected);
  buffer.consume(10);
  EXPECT_EQ(buffer.view(), expected.substr(10));
  Buffer moved = std::move(buffer);
  EXPECT_FALSE(buffer);
  EXPECT_EQ(moved.view(), expected.substr(10));
  moved.consume(moved.size());
  EXPECT_EQ(moved.view(), "");
}

}  // namespace
}  // namespace llmd::io
