#include "engine/context/context_registry.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

std::shared_ptr<RegisteredContext> Named(const std::string& tenant, const std::string& name) {
  auto context = std::make_shared<RegisteredContext>();
  context->record.tenant = tenant;
  context->record.name = name;
  context->model = std::make_shared<ServedModel>();
  return context;
}

std::shared_ptr<RegisteredContext> NamedFor(const std::shared_ptr<ServedModel>& model,
                                            const std::string& name) {
  auto context = Named("t", name);
  context->model = model;
  return context;
}

TEST(ContextRegistryTest, ContextsOfARemovedModelAreForgotten) {
  ContextRegistry registry(1 << 20);
  const auto model = std::make_shared<ServedModel>();
  const auto gone = NamedFor(model, "gone");
  const auto stays = Named("t", "stays");
  for (const auto& context : {gone, stays}) {
    registry.BeginLoad("t", context->record.name);
    ASSERT_TRUE(registry.Publish(context));
  }
  auto held = NamedFor(model, "held");
  held->data = std::make_unique<ContextData>();
  const std::weak_ptr<const RegisteredContext> held_only = held;
  registry.AddRegistered(std::move(held));
  ASSERT_FALSE(held_only.expired());
  registry.BeginLoad("t", "loading");

  model->removed = true;
  registry.Forget(*model);
  EXPECT_EQ(registry.Find("t", "gone"), nullptr);
  EXPECT_EQ(registry.Find("t", "stays"), stays);
  EXPECT_TRUE(held_only.expired());
  // Nor do later ones come in.
  EXPECT_FALSE(registry.Publish(NamedFor(model, "loading")));
  auto late = NamedFor(model, "late");
  late->data = std::make_unique<ContextData>();
  registry.AddRegistered(late);
  EXPECT_EQ(registry.Find("t", "late"), nullptr);
  // The names can have contexts of another model.
  registry.BeginLoad("t", "gone");
  EXPECT_TRUE(registry.Publish(Named("t", "gone")));
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

// Takes `mib` MiB and a little more.
std::shared_ptr<RegisteredContext> Registered(const std::string& name, int64_t mib) {
  auto context = Named("t", name);
  context->data = std::make_unique<ContextData>();
  context->data->y.resize((mib << 20) / sizeof(float));
  return context;
}

constexpr int64_t kTenMib = int64_t{10} << 20;

TEST(ContextRegistryTest, ASuccessorIsFoundInsteadOfItsPredecessor) {
  ContextRegistry registry(kTenMib);
  std::shared_ptr<RegisteredContext> old = Registered("c", 1);
  registry.AddRegistered(old);
  registry.BeginLoad("t", "c");
  std::shared_ptr<RegisteredContext> held = Registered("c", 2);
  registry.Supersede(held, ContextRegistry::Holding::kHeld);
  EXPECT_TRUE(old->replaced && old->deleted);
  EXPECT_EQ(registry.Find("t", "c"), held);
  EXPECT_FALSE(registry.Publish(Named("t", "c"))) << "it was read before";
  EXPECT_GT(registry.held_bytes(), 2 << 20);
  EXPECT_LT(registry.held_bytes(), 3 << 20) << "the old one is not held";
  const std::weak_ptr<RegisteredContext> weak = held;
  held.reset();
  EXPECT_FALSE(weak.expired());

  std::shared_ptr<RegisteredContext> not_held = Named("t", "c");
  registry.Supersede(not_held, ContextRegistry::Holding::kNotHeld);
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(registry.held_bytes(), 0);
  EXPECT_EQ(registry.Find("t", "c"), not_held);
  not_held.reset();
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
  // Too large to be held.
  std::shared_ptr<RegisteredContext> large = Registered("c", 11);
  registry.Supersede(large, ContextRegistry::Holding::kHeld);
  EXPECT_EQ(registry.Find("t", "c"), large);
  EXPECT_EQ(registry.held_bytes(), 0);
}

TEST(ContextRegistryTest, HoldsTheLatestRegistrationsThatFit) {
  ContextRegistry registry(kTenMib);
  for (const char* name : {"a", "b", "c"}) registry.AddRegistered(Registered(name, 4));
  EXPECT_EQ(registry.Find("t", "a"), nullptr);
  EXPECT_NE(registry.Find("t", "b"), nullptr);
  EXPECT_NE(registry.Find("t", "c"), nullptr);
  registry.AddRegistered(Registered("large", 10));
  EXPECT_EQ(registry.Find("t", "large"), nullptr);
  EXPECT_NE(registry.Find("t", "b"), nullptr);
  registry.AddRegistered(Registered("almost", 9));
  EXPECT_NE(registry.Find("t", "almost"), nullptr);
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
}

// Small ones are mostly overhead: objects, columns and categories.
TEST(ContextRegistryTest, CountsWhatSmallRegistrationsTake) {
  ContextRegistry registry(kTenMib);
  for (int i = 0; i < 100000; ++i) registry.AddRegistered(Registered(std::to_string(i), 0));
  EXPECT_EQ(registry.Find("t", "0"), nullptr);
  EXPECT_NE(registry.Find("t", "99999"), nullptr);

  ContextRegistry categories(kTenMib);
  for (const char* name : {"a", "b"}) {
    auto context = Registered(name, 0);
    context->record.columns = {
        {.name = "x", .type = ColumnType::kCategorical, .categories = 100000}};
    categories.AddRegistered(std::move(context));
  }
  EXPECT_EQ(categories.Find("t", "a"), nullptr);
  EXPECT_NE(categories.Find("t", "b"), nullptr);
}

TEST(ContextRegistryTest, AReleasedRegistrationLivesAsLongAsItsRequest) {
  ContextRegistry registry(kTenMib);
  registry.AddRegistered(Registered("a", 8));
  auto taken = registry.Find("t", "a");
  ASSERT_NE(taken, nullptr);
  registry.Release(*taken);
  registry.Release(*taken);
  EXPECT_EQ(registry.Find("t", "a"), taken);
  registry.AddRegistered(Registered("b", 9));  // its bytes are free again
  EXPECT_NE(registry.Find("t", "b"), nullptr);
  taken.reset();
  EXPECT_EQ(registry.Find("t", "a"), nullptr);
}

TEST(ContextRegistryTest, ADeletedRegistrationIsDropped) {
  ContextRegistry registry(kTenMib);
  registry.AddRegistered(Registered("a", 8));
  const std::weak_ptr<const RegisteredContext> old = registry.Find("t", "a");
  registry.Invalidate("t", "a");
  EXPECT_TRUE(old.expired());
  const auto fresh = Registered("a", 9);
  registry.AddRegistered(fresh);
  EXPECT_EQ(registry.Find("t", "a"), fresh);
  EXPECT_FALSE(fresh->deleted);
}

// A late release by a request for a registration that was deleted meanwhile.
TEST(ContextRegistryTest, ReleasingADeletedRegistrationLeavesItsSuccessor) {
  ContextRegistry registry(kTenMib);
  const auto old = Registered("a", 1);
  registry.AddRegistered(old);
  registry.Invalidate("t", "a");
  registry.AddRegistered(Registered("a", 1));
  registry.Release(*old);
  EXPECT_NE(registry.Find("t", "a"), nullptr);
}

// Holds a table of some MiB for a context that is in memory.
void HoldTable(const std::shared_ptr<const RegisteredContext>& context, int64_t mib,
               ContextRegistry* registry) {
  auto table = std::make_shared<ContextData>();
  table->y.resize((mib << 20) / sizeof(float));
  registry->HoldTable(context, std::move(table));
}

TEST(ContextRegistryTest, HoldsTheTablesThatWereUsedLast) {
  ContextRegistry registry(kTenMib);
  std::vector<std::shared_ptr<RegisteredContext>> contexts;
  for (const char* name : {"a", "b", "c"}) {
    contexts.push_back(Named("t", name));
    registry.BeginLoad("t", name);
    ASSERT_TRUE(registry.Publish(contexts.back()));
  }
  HoldTable(contexts[0], 4, &registry);
  HoldTable(contexts[1], 4, &registry);
  EXPECT_NE(registry.FindTable(*contexts[0]), nullptr);
  HoldTable(contexts[2], 4, &registry);
  EXPECT_NE(registry.FindTable(*contexts[0]), nullptr);
  EXPECT_EQ(registry.FindTable(*contexts[1]), nullptr);
  EXPECT_NE(registry.FindTable(*contexts[2]), nullptr);
  // New registrations come first.
  registry.AddRegistered(Registered("new", 5));
  EXPECT_EQ(registry.FindTable(*contexts[0]), nullptr);
  EXPECT_NE(registry.FindTable(*contexts[2]), nullptr);
  HoldTable(contexts[0], 6, &registry);
  EXPECT_EQ(registry.FindTable(*contexts[0]), nullptr);
  EXPECT_NE(registry.Find("t", "new"), nullptr);
  registry.LimitRegistered(0);
  EXPECT_EQ(registry.held_bytes(), 0);
}

TEST(ContextRegistryTest, AHeldTableKeepsItsContextInMemoryUntilItIsInvalid) {
  ContextRegistry registry(kTenMib);
  auto context = Named("t", "c");
  HoldTable(context, 1, &registry);
  EXPECT_EQ(registry.held_bytes(), 0) << "it is not registered";
  registry.BeginLoad("t", "c");
  ASSERT_TRUE(registry.Publish(context));
  HoldTable(context, 1, &registry);
  HoldTable(context, 1, &registry);
  EXPECT_LT(registry.held_bytes(), int64_t{2} << 20);
  const std::weak_ptr<const RegisteredContext> held = context;
  context.reset();
  EXPECT_NE(registry.Find("t", "c"), nullptr);
  registry.Invalidate("t", "c", ContextRegistry::Cause::kReplaced);
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(registry.held_bytes(), 0);
}

// One object for a registration, whether the loader or the registration comes first.
TEST(ContextRegistryTest, ALoadAndARegistrationGiveOneContext) {
  ContextRegistry registry(kTenMib);
  registry.BeginLoad("t", "a");
  const auto during = Registered("a", 1);
  registry.AddRegistered(during);
  EXPECT_FALSE(registry.Publish(Named("t", "a")));
  EXPECT_EQ(registry.Find("t", "a"), during);

  const auto before = Registered("b", 1);  // after the loader did not find it
  registry.AddRegistered(before);
  registry.BeginLoad("t", "b");
  EXPECT_FALSE(registry.Publish(Named("t", "b")));
  EXPECT_EQ(registry.Find("t", "b"), before);

  const auto loaded = Named("t", "c");
  registry.BeginLoad("t", "c");
  ASSERT_TRUE(registry.Publish(loaded));
  registry.AddRegistered(Registered("c", 1));
  EXPECT_EQ(registry.Find("t", "c"), loaded);
}

}  // namespace
}  // namespace chorale
