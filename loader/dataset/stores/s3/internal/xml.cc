#include "loader/dataset/stores/s3/internal/xml.h"

#include <expat.h>

#include <memory>
#include <new>
#include <type_traits>

namespace isocost {
namespace {

// Stands between a namespace and a name, and occurs in no name.
constexpr char kSeparator = '|';

// Builds the tree from expat's events.
class Builder {
 public:
  Builder(XML_Parser parser, const XmlLimits& limits) : parser_(parser), limits_(limits) {
    XML_SetUserData(parser, this);
    XML_SetElementHandler(parser, &on_start, &on_end);
    XML_SetCharacterDataHandler(parser, &on_text);
    XML_SetStartDoctypeDeclHandler(parser, &on_doctype);
  }

  const std::string& problem() const { return problem_; }
  XmlElement take_root() { return std::move(root_); }

 private:
  static Builder& self(void* data) { return *static_cast<Builder*>(data); }

  static void on_start(void* data, const XML_Char* name, const XML_Char** /*attributes*/) {
    self(data).guard([&] { self(data).start(name); });
  }
  // It is still called for an empty element that stopped the parser.
  static void on_end(void* data, const XML_Char* /*name*/) {
    if (self(data).problem_.empty()) self(data).open_.pop_back();
  }
  static void on_text(void* data, const XML_Char* text, int size) {
    self(data).guard([&] { self(data).add_text({text, static_cast<std::size_t>(size)}); });
  }
  static void on_doctype(void* data, const XML_Char* /*name*/, const XML_Char* /*system_id*/,
                         const XML_Char* /*public_id*/, int /*has_internal_subset*/) {
    self(data).guard([&] { self(data).stop("it declares a document type"); });
  }

  // No exception passes through expat's frames, which are C.
  template <typename Action>
  void guard(Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      stop("it needs more memory than there is");
    }
  }

  void stop(const char* problem) {
    problem_ = problem;  // Short enough for a string's own bytes, or the memory was there.
    XML_StopParser(parser_, XML_FALSE);
  }

  void start(std::string_view name) {
    if (++elements_ > limits_.max_elements) return stop("it has too many elements");
    if (open_.size() >= limits_.max_depth) return stop("it is nested too deeply");
    name = name.substr(name.rfind(kSeparator) + 1);  // npos + 1 is 0
    XmlElement* element = &root_;
    if (!open_.empty()) element = &open_.back()->children.emplace_back();
    element->name = name;
    open_.push_back(element);
  }
  void add_text(std::string_view text) {
    if (!open_.empty()) open_.back()->text += text;
  }

  XML_Parser parser_;
  XmlLimits limits_;
  XmlElement root_;
  // From the root to the element that is being read. An element's place changes only when a sibling
  // is added, which is after it was closed.
  std::vector<XmlElement*> open_;
  std::size_t elements_ = 0;
  std::string problem_;
};

Error no_xml(const std::string& why) { return {ErrorCode::kCorrupt, "is no XML: " + why}; }

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  for (const XmlElement& element : children) {
    if (element.name == child_name) return &element;
  }
  return nullptr;
}

std::string_view XmlElement::text_of(std::string_view child_name) const {
  const XmlElement* found = child(child_name);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlElement> parse_xml(std::string_view text, const XmlLimits& limits) {
  if (text.size() > limits.max_bytes) return no_xml("it is too large");
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, decltype(&XML_ParserFree)> parser(
      XML_ParserCreateNS(nullptr, kSeparator), &XML_ParserFree);
  if (!parser) throw std::bad_alloc();
  Builder builder(parser.get(), limits);
  if (XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), 1) == XML_STATUS_OK) {
    return builder.take_root();
  }
  if (!builder.problem().empty()) return no_xml(builder.problem());
  return no_xml(XML_ErrorString(XML_GetErrorCode(parser.get())));
}

}  // namespace isocost
