package load

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

// The picture is drawn by hand: it is a few rectangles. Sizes are in pixels.
const (
	panelWidth, panelHeight = 380, 300
	panelsInRow             = 3
	plotLeft, plotTop       = 64, 34 // of a panel, where its axes begin
	plotWidth, plotHeight   = 300, 220
	legendHeight            = 20
	barsShare               = 0.8 // of the room of one number of clients
	gridLines               = 4
)

// targetColors are distinguishable with colour vision deficiency.
var targetColors = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"}

// plot draws the throughput as bars: a panel for each workload, a group of bars for
// each number of clients, a bar for each target.
func (r *Report) plot(w io.Writer) error {
	panels := r.tables()
	if len(panels) == 0 {
		return errors.New("there is nothing to draw")
	}
	columns := min(len(panels), panelsInRow)
	rows := (len(panels) + columns - 1) / columns
	top := legendHeight * (len(r.Targets) + 1)
	out := bufio.NewWriter(w)
	fmt.Fprintf(
		out,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n"+
			`<rect width="100%%" height="100%%" fill="white"/>`+"\n",
		columns*panelWidth,
		rows*panelHeight+top,
	)
	drawText(out, 10, 15, "start", "Operations a second, "+r.Began.Format("2006-01-02")+", "+r.Machine.String())
	for i, t := range r.Targets {
		y := legendHeight * (i + 1)
		drawBar(out, 10, float64(y)+3, 12, 12, i)
		drawText(out, 28, float64(y)+14, "start", t.Name)
	}
	for i, t := range panels {
		fmt.Fprintf(out, `<g transform="translate(%d,%d)">`+"\n", i%columns*panelWidth, top+i/columns*panelHeight)
		r.drawPanel(out, t)
		fmt.Fprintln(out, "</g>")
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func (r *Report) drawPanel(w io.Writer, t table) {
	var clients []int
	highest := 0.0
	for _, res := range r.Results {
		if !t.has(res) {
			continue
		}
		highest = max(highest, res.Median.PerSecond)
		if !slices.Contains(clients, res.Clients) {
			clients = append(clients, res.Clients)
		}
	}
	slices.Sort(clients)
	step := niceStep(highest / gridLines)
	scale := plotHeight / (step * math.Max(1, math.Ceil(highest/step)))
	title := t.workload
	if t.pipeline > 1 {
		title += fmt.Sprintf(", pipeline %d", t.pipeline)
	}
	drawText(w, plotLeft, plotTop-12, "start", title)
	for v := 0.0; v*scale <= plotHeight+1; v += step {
		y := plotTop + plotHeight - v*scale
		fmt.Fprintf(w, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ccc"/>`+"\n",
			plotLeft, plotLeft+plotWidth, y, y)
		drawText(w, plotLeft-6, y+4, "end", thousands(v))
	}
	group := plotWidth / float64(len(clients))
	bar := group * barsShare / float64(len(r.Targets))
	for j, n := range clients {
		left := plotLeft + group*(float64(j)+(1-barsShare)/2)
		for i, target := range r.Targets {
			for _, res := range r.Results {
				if t.has(res) && res.Clients == n && res.Target == target.Name {
					height := res.Median.PerSecond * scale
					drawBar(w, left+bar*float64(i), plotTop+plotHeight-height, bar, height, i)
				}
			}
		}
		drawText(w, plotLeft+group*(float64(j)+0.5), plotTop+plotHeight+16, "middle", thousands(float64(n)))
	}
	drawText(w, plotLeft+plotWidth/2, plotTop+plotHeight+34, "middle", "clients")
}

func drawBar(w io.Writer, x, y, width, height float64, target int) {
	fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
		x, y, width, height, targetColors[target%len(targetColors)])
}

func drawText(w io.Writer, x, y float64, anchor, text string) {
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
}

// niceStep returns the first of 1, 2, 5, 10, 20 ... that is not below x.
func niceStep(x float64) float64 {
	if x <= 1 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x {
			return m * power
		}
	}
	return 10 * power
}
