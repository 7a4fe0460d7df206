package strictjson

// number reads the number at pos and returns it as written, and whether it is an integer.
func (d *decoder) number() (text []byte, whole, ok bool) {
	start := d.pos
	if d.peek() == '-' {
		d.pos++
	}
	zero := d.peek() == '0'
	switch n := d.digits(); {
	case n == 0:
		return nil, false, d.badNumber(start, "a digit after the minus sign")
	case zero && n > 1:
		return nil, false, d.badNumber(start, "a number without leading zeros")
	}
	whole = true
	if d.peek() == '.' {
		whole = false
		d.pos++
		if d.digits() == 0 {
			return nil, false, d.badNumber(start, "a digit after the decimal point")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		whole = false
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if d.digits() == 0 {
			return nil, false, d.badNumber(start, "a digit in the exponent")
		}
	}
	return d.data[start:d.pos], whole, true
}

func (d *decoder) digits() (n int) {
	start := d.pos
	for d.pos < len(d.data) && d.data[d.pos]-'0' < 10 {
		d.pos++
	}
	return d.pos - start
}

func (d *decoder) badNumber(start int, want string) bool {
	d.pos = start
	return d.fail(start, d.token(), want)
}

func isNumberStart(c byte) bool { return c == '-' || c-'0' < 10 }
