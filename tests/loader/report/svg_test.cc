#include "loader/report/internal/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

namespace isocost::report {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Escaped, NoTextBecomesMarkup) {
  EXPECT_EQ(escaped("<script>alert('a & b')</script>"),
            "&lt;script&gt;alert(&#39;a &amp; b&#39;)&lt;/script&gt;");
  EXPECT_EQ(escaped("\" onload=\"x"), "&quot; onload=&quot;x");
  EXPECT_EQ(escaped("grün ± 1"), "grün ± 1");
}

// XML has no way to write them.
TEST(Escaped, ReplacesWhatIsNoCharacterOfXml) {
  EXPECT_EQ(escaped("a\x1b\n\xff"), "a???");
  EXPECT_EQ(escaped("\xEF\xBF\xBE\xEF\xBF\xBF\xEF\xBF\xBD"), "??\xEF\xBF\xBD");
}

TEST(ShortNumber, HasFewLetters) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.0123), "0.0123");
  EXPECT_EQ(short_number(340), "340");
  EXPECT_EQ(short_number(1234), "1.2k");
  EXPECT_EQ(short_number(56'000'000), "56M");
  EXPECT_EQ(short_seconds(0), "0 s");
  EXPECT_EQ(short_seconds(2e-5), "20 µs");
  EXPECT_EQ(short_seconds(0.0012), "1.2 ms");
  EXPECT_EQ(short_seconds(90), "1.5 min");
  EXPECT_EQ(short_seconds(10'800), "3 h");
}

TEST(SvgWriter, WritesEachElement) {
  SvgWriter svg;
  svg.box({1, 2.5, 3.125, 4}, "#123456", {.title = "a<b", .opacity = 0.5});
  svg.line({0, 0}, {10, -0.001});
  svg.curve(std::array<Point, 2>{{{1, 2}, {3, 4}}}, "#000000", 2);
  svg.text({5, 6}, "x & y", {.anchor = Anchor::kEnd, .size = 9, .bold = true});
  EXPECT_EQ(svg.html(20, 10, "\"label\""),
            "<svg width=\"20\" height=\"10\" viewBox=\"0 0 20 10\" font-family=\"sans-serif\" "
            "role=\"img\" aria-label=\"&quot;label&quot;\">\n"
            "<rect x=\"1\" y=\"2.5\" width=\"3.12\" height=\"4\" fill=\"#123456\" "
            "fill-opacity=\"0.5\"><title>a&lt;b</title></rect>\n"
            "<line x1=\"0\" y1=\"0\" x2=\"10\" y2=\"0\" stroke=\"#999999\" stroke-width=\"1\"/>\n"
            "<polyline points=\"1,2 3,4\" fill=\"none\" stroke=\"#000000\" stroke-width=\"2\"/>\n"
            "<text x=\"5\" y=\"6\" text-anchor=\"end\" font-size=\"9\" font-weight=\"bold\" "
            "fill=\"#222222\">x &amp; y</text>\n"
            "</svg>\n");
}

TEST(SvgWriter, AFileStandsAloneOnWhite) {
  const std::string file = SvgWriter().file(20, 10);
  EXPECT_THAT(file, AllOf(StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""),
                          HasSubstr("<rect x=\"0\" y=\"0\" width=\"20\" height=\"10\""),
                          EndsWith("</svg>\n")));
}

TEST(SvgWriter, NumbersAreFinite) {
  SvgWriter svg;
  svg.box({std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1, 1},
          "#000000");
  EXPECT_THAT(svg.html(1, 1, ""),
              AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf")), HasSubstr("x=\"0\" y=\"0\"")));
}

}  // namespace
}  // namespace isocost::report
