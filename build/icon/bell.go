package icon

import "math"

// Where the bell stands. The origin is the upper left corner.
const (
	middle   = 256.0
	domeFoot = 346.0 // where the dome meets the base
	domeWide = 148.0
	domeHigh = 150.0
)

var (
	tileTop    = rgb(0x3b4a9e)
	tileBottom = rgb(0x141a45)
	glow       = rgb(0x8fa2ff)
	brassLight = rgb(0xffe9b0)
	brass      = rgb(0xf2b544)
	brassDark  = rgb(0xa85f14)
	brassEdge  = rgb(0x6e3a0a)
	steelLight = rgb(0xfdf6e6)
	steel      = rgb(0xd9c7a0)
	steelDark  = rgb(0x7c6237)
	shadow     = rgb(0x060a24)
	plateLight = rgb(0x8d97cf)
	plateDark  = rgb(0x353d7a)
	white      = rgb(0xffffff)
)

// trace returns the colour of the icon at one point: the tile, the light
// behind the bell, its shadow, then the parts of the bell from back to front.
func trace(x, y float64) paint {
	if box(x-middle, y-middle, 244, 244, 112) > 0 {
		return paint{}
	}
	p := mix(tileTop, tileBottom, (y*0.85+x*0.15)/Size)
	p = p.over(glow, 0.55*math.Exp(-square(x-middle, 150)-square(y-250, 130)))
	p = p.over(white, 0.10*edge(-box(x-middle, y-middle, 244, 244, 112), 3))
	p = rings(p, x, y)
	p = p.over(shadow, 0.75*math.Exp(-square(x-middle, 150)-square(y-412, 17)))
	p = stem(p, x, y)
	p = dome(p, x, y)
	return base(p, x, y)
}

// rings are the two arcs of sound on either side of the button.
func rings(p paint, x, y float64) paint {
	dx, dy := math.Abs(x-middle), y-200
	radius, angle := math.Hypot(dx, dy), math.Atan2(-dy, dx)
	for i, r := range []float64{118, 158} {
		off := math.Abs(angle-0.80) - 0.34
		d := math.Abs(radius-r) - 8
		if off > 0 { // a round end
			end := 0.80 + math.Copysign(0.34, angle-0.80)
			d = math.Hypot(dx-r*math.Cos(end), -dy-r*math.Sin(end)) - 8
		}
		if d < 0 {
			p = p.over(mix(brassLight, brass, 0.75*float64(i)), 0.95-0.17*float64(i))
		}
	}
	return p
}

// stem is the button on top and the pin that carries it.
func stem(p paint, x, y float64) paint {
	if box(x-middle, y-190, 9, 22, 2) < 0 {
		p = p.over(mix(steel, steelDark, (x-middle+9)/18), 1)
	}
	if d := box(x-middle, y-168, 34, 13, 13); d < 0 {
		t := (y - 155) / 26
		c := mix(steelLight, steelDark, t*0.8+(x-middle)/160)
		p = c.over(white, 0.7*math.Exp(-square(x-242, 16)-square(y-162, 4)))
	}
	return p
}

// dome is the bell itself, shaded as a ball of brass.
func dome(p paint, x, y float64) paint {
	nx, ny := (x-middle)/domeWide, (domeFoot-y)/domeHigh
	if y > domeFoot || nx*nx+ny*ny > 1 {
		return p
	}
	nz := math.Sqrt(1 - nx*nx - ny*ny)
	light := -0.50*nx + 0.62*ny + 0.60*nz
	c := mix(brassDark, brass, light*1.5-0.15)
	c = mix(c, brassLight, (light-0.62)*1.7)
	c = c.over(brassEdge, 0.55*(1-nz)*(1-nz)*(1-nz))
	// The sky in the metal: a bright streak on the left, a dim one on the right.
	streak := math.Exp(-square(math.Hypot(nx+0.02, ny-0.02)-0.80, 0.06))
	c = c.over(white, 0.80*streak*math.Exp(-square(math.Atan2(ny, -nx)-0.85, 0.38)))
	c = c.over(brassLight, 0.40*streak*math.Exp(-square(math.Atan2(ny, nx)-0.55, 0.30)))
	return c.over(brassEdge, 0.45*math.Exp(-(domeFoot-y)/9))
}

// base is the foot the bell stands on: a lip under the dome and a plate.
func base(p paint, x, y float64) paint {
	if box(x-middle, y-356, 162, 13, 9) < 0 {
		c := mix(brassLight, brassDark, (y-345)/30+(x-middle)/520)
		p = c.over(white, 0.6*math.Exp(-square(x-200, 70)-square(y-349, 3)))
	}
	if box(x-middle, y-386, 182, 20, 16) < 0 {
		c := mix(plateLight, plateDark, (y-366)/44+(x-middle)/900)
		p = c.over(white, 0.55*math.Exp(-square(x-205, 110)-square(y-370, 2.6)))
	}
	return p
}

// box is the distance to a box with rounded corners around the origin,
// negative inside.
func box(x, y, w, h, r float64) float64 {
	qx, qy := math.Abs(x)-w+r, math.Abs(y)-h+r
	return math.Hypot(max(qx, 0), max(qy, 0)) + min(max(qx, qy), 0) - r
}

// edge is 1 at the rim and falls to 0 within width.
func edge(d, width float64) float64 { return max(0, 1-d/width) }

func square(v, scale float64) float64 { return v * v / (scale * scale) }
