#include "engine/context/context_registry.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace chorale {
namespace {

std::shared_ptr<RegisteredContext> Named(const std::string& tenant, const std::string& name) {
  auto context = std::make_shared<RegisteredContext>();
  context->record.tenant = tenant;
  context->record.name = name;
  return context;
}

TEST(ContextRegistryTest, FindsWhatIsHeldAndNothingElse) {
  ContextRegistry registry;
  auto context = Named("t", "c");
  registry.BeginLoad("t", "c");
  ASSERT_TRUE(registry.Publish(context));
  EXPECT_EQ(registry.Find("t", "c"), context);
  EXPECT_EQ(registry.Find("t", "d"), nullptr);
  EXPECT_EQ(registry.Find("u", "c"), nullptr);
  context.reset();
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
}

TEST(ContextRegistryTest, InvalidationMarksAndForgets) {
  ContextRegistry registry;
  auto context = Named("t", "c");
  registry.BeginLoad("t", "c");
  ASSERT_TRUE(registry.Publish(context));
  registry.Invalidate("t", "c");
  EXPECT_TRUE(context->deleted);
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
  registry.Invalidate("t", "c");
}

TEST(ContextRegistryTest, WhatWasInvalidatedWhileItWasLoadedIsNotPublished) {
  ContextRegistry registry;
  auto context = Named("t", "c");
  registry.BeginLoad("t", "c");
  registry.Invalidate("t", "c");
  EXPECT_FALSE(registry.Publish(context));
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
  registry.BeginLoad("t", "c");
  registry.Invalidate("t", "other");
  EXPECT_TRUE(registry.Publish(context));
}

TEST(ContextRegistryTest, SweepsWhatIsGoneAndKeepsWhatIsNot) {
  ContextRegistry registry;
  auto kept = Named("t", "kept");
  registry.BeginLoad("t", "kept");
  ASSERT_TRUE(registry.Publish(kept));
  for (int i = 0; i < 1000; ++i) {
    auto gone = Named("t", std::to_string(i));
    registry.BeginLoad("t", std::to_string(i));
    ASSERT_TRUE(registry.Publish(gone));
  }
  EXPECT_EQ(registry.Find("t", "kept"), kept);
  EXPECT_EQ(registry.Find("t", "17"), nullptr);
}

}  // namespace
}  // namespace chorale
