#include <string>
#include <string_view>
#include <utility>

#include "decode/bytes/json_reader.h"
#include "loader/dataset/formats/internal/meta_builder.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {
namespace {

class Events final : public JsonEvents {
 public:
  Status null() override { return builder_.scalar(MetaValue::null()); }
  Status boolean(bool value) override { return builder_.scalar(MetaValue::boolean(value)); }
  Status number(std::string_view token) override {
    return builder_.scalar(MetaValue::number(std::string(token)));
  }
  Status string(std::string& value) override {
    return builder_.scalar(MetaValue::text(std::move(value)));
  }
  Status key(std::string& name) override {
    return builder_.scalar(MetaValue::text(std::move(name)));
  }
  Status begin_object() override { return builder_.begin(MetaValue::map()); }
  Status end_object() override { return builder_.end(); }
  Status begin_array() override { return builder_.begin(MetaValue::list()); }
  Status end_array() override { return builder_.end(); }

  MetaValue take() && { return std::move(builder_).take(); }

 private:
  MetaBuilder builder_;
};

}  // namespace

Result<MetaValue> parse_meta_json(std::string_view text) {
  Events events;
  ISOCOST_TRY(read_json(text, events, kMaxMetaDepth));
  return std::move(events).take();
}

}  // namespace isocost
