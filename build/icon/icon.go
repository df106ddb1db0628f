// Package icon draws the icon of the extension: a concierge bell, lit from the
// upper left, on a rounded tile. It is drawn by code so that it has a source
// that can be read and changed. (design.md 8)
package icon

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
)

// Size is the width and height in pixels: what hosts recommend.
const Size = 512

// samples is how many rays a pixel takes in each direction.
const samples = 4

// Draw returns the icon as a PNG. The same code gives the same bytes.
func Draw() ([]byte, error) {
	img := image.NewNRGBA(image.Rect(0, 0, Size, Size))
	for y := range Size {
		for x := range Size {
			img.SetNRGBA(x, y, pixel(x, y))
		}
	}
	var b bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := enc.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("encode icon: %w", err)
	}
	return b.Bytes(), nil
}

// pixel averages the rays through one pixel.
func pixel(x, y int) color.NRGBA {
	var sum paint
	for j := range samples {
		for i := range samples {
			p := trace(float64(x)+(float64(i)+0.5)/samples, float64(y)+(float64(j)+0.5)/samples)
			sum.r += p.r * p.a
			sum.g += p.g * p.a
			sum.b += p.b * p.a
			sum.a += p.a
		}
	}
	if sum.a == 0 {
		return color.NRGBA{}
	}
	return color.NRGBA{R: level(sum.r / sum.a), G: level(sum.g / sum.a), B: level(sum.b / sum.a), A: level(sum.a / (samples * samples))}
}

func level(v float64) uint8 { return uint8(math.Round(255 * min(max(v, 0), 1))) }

// paint is a colour whose parts go from 0 to 1.
type paint struct{ r, g, b, a float64 }

func rgb(hex uint32) paint {
	return paint{float64(hex>>16&255) / 255, float64(hex>>8&255) / 255, float64(hex&255) / 255, 1}
}

// mix goes from p to q as t goes from 0 to 1.
func mix(p, q paint, t float64) paint {
	t = min(max(t, 0), 1)
	return paint{p.r + (q.r-p.r)*t, p.g + (q.g-p.g)*t, p.b + (q.b-p.b)*t, p.a + (q.a-p.a)*t}
}

// over lays q on p with strength t.
func (p paint) over(q paint, t float64) paint {
	t = min(max(t, 0), 1)
	return paint{p.r + (q.r-p.r)*t, p.g + (q.g-p.g)*t, p.b + (q.b-p.b)*t, p.a}
}
