// Charts: bars over time, drawn as SVG. The text next to a chart says the same, because some users cannot see the drawing.

import { h, s } from "./dom.js";
import { axisTime, exactly } from "./words.js";

const WIDTH = 600;
const HEIGHT = 96;
const GAP = 2;

/**
 * A chart with one bar per time span. `series` has { name, kind, values }; bars are stacked in their order, and `kind` is
 * the class of the colour. A value of null is a span without a measurement.
 */
export function barChart({ title, total, href = null, note = null, series, fromMs, bucketMs }) {
  const spans = series[0].values.length;
  const sums = Array.from({ length: spans }, (_, at) => series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0));
  const isKnown = Array.from({ length: spans }, (_, at) => series.some((one) => one.values[at] !== null));
  const top = niceTop(Math.max(1, ...sums));
  const width = WIDTH / spans;
  const bars = [];
  for (let at = 0; at < spans; at++) {
    let base = HEIGHT;
    for (const one of series) {
      const value = one.values[at] ?? 0;
      if (!value) continue;
      const height = Math.max(1.5, (value / top) * HEIGHT);
      base -= height;
      bars.push(s("rect", { class: `bar ${one.kind}`, x: at * width + GAP / 2, y: Math.max(0, base), width: width - GAP, height }));
    }
    const when = exactly(fromMs + at * bucketMs);
    const said = isKnown[at] ? series.map((one) => `${(one.values[at] ?? 0).toLocaleString("en")} ${one.name}`).join(", ") : "not measured";
    bars.push(s("rect", { class: isKnown[at] ? "hit" : "hit unknown", x: at * width, y: 0, width, height: HEIGHT }, s("title", null, `${when}: ${said}`)));
  }
  const ends = fromMs + spans * bucketMs;
  const figure = [h("b", null, total), " ", title];
  return h("figure", { class: "chart card", "data-key": `chart-${title}` },
    h("figcaption", null, href ? h("a", { href, class: "total" }, figure) : h("span", { class: "total" }, figure), note ? h("span", { class: "quiet" }, note) : null),
    h("div", { class: "plot" },
      h("span", { class: "top", "aria-hidden": "true" }, top.toLocaleString("en")),
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} over time: ${total} in all, at most ${Math.max(0, ...sums).toLocaleString("en")} in one bar` },
        s("line", { class: "grid", x1: 0, x2: WIDTH, y1: 0.5, y2: 0.5 }), s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }), bars,
        s("line", { class: "ground", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }))),
    h("div", { class: "axis quiet", "aria-hidden": "true" }, h("span", null, axisTime(fromMs, ends - fromMs)), h("span", null, axisTime((fromMs + ends) / 2, ends - fromMs)), h("span", null, "now")));
}

/** The smallest of 1, 2, 5, 10, 20, … that is at least the value. */
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value);
}

/** A share as a bar, such as busy slots. */
export function meter(value, most, text) {
  const share = most ? Math.min(1, value / most) : 0;
  return h("span", { class: "meter" }, s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "rail", width: 100, height: 6, rx: 3 }), share ? s("rect", { class: `fill ${share >= 1 ? "full" : ""}`, width: Math.max(3, share * 100), height: 6, rx: 3 }) : null), ` ${text}`);
}
