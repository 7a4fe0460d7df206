package schedule

// Days are counted from 0000-03-01, the start of a 400-year cycle in which a leap day, if there is one, ends each
// year. So every day that a time.Time can usefully represent is a small positive number, and unsigned division by
// constants does the rest.
const (
	daySeconds = 24 * 60 * 60
	epochDay   = 719468 // 1970-01-01
	epochShift = epochDay * daySeconds
	cycleDays  = 146097 // of 400 years
)

// weekday is 0 for Sunday.
func weekday(day uint32) uint32 { return (day + 3) % 7 }

// civil returns the date of a day; month and date count from 0.
func civil(day uint32) (year, month, date uint32) {
	era, doe := day/cycleDays, day%cycleDays
	yoe := (doe - doe/1460 + doe/36524 - doe/(cycleDays-1)) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153 // months since March
	date = doy - (153*mp+2)/5
	year = yoe + era*400
	if mp < 10 {
		return year, mp + 2, date
	}
	return year + 1, mp - 10, date
}

// firstOf returns the first day of a month; the month counts from 0.
func firstOf(year, month uint32) uint32 {
	mp := month - 2
	if month < 2 {
		year, mp = year-1, month+10
	}
	era, yoe := year/400, year%400
	return era*cycleDays + yoe*365 + yoe/4 - yoe/100 + (153*mp+2)/5
}

// monthDays holds the lengths of the months in years that are not leap years.
var monthDays = [12]uint32{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func daysIn(year, month uint32) uint32 {
	if month == 1 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return monthDays[month]
}

// month is one month of one year.
type month struct {
	first uint32 // its first day
	month uint8  // from 0
	shape uint8  // its place among the shapes
}

// Months are counted from January of the year 0. Those of the usual years are precomputed, because dividing a day
// number by the lengths of years and months is most of the cost of searching for a day.
const (
	tableMonth  = 1969 * 12
	tableMonths = (2106 - 1969) * 12
)

var monthTable = func() (t [tableMonths]month) {
	for i := range t {
		t[i] = makeMonth(tableMonth + uint32(i))
	}
	return t
}()

func makeMonth(i uint32) month {
	y, m := i/12, i%12
	first := firstOf(y, m)
	return month{first: first, month: uint8(m), shape: uint8(shape(daysIn(y, m), weekday(first)))}
}

func monthAt(i uint32) month {
	if i-tableMonth < tableMonths {
		return monthTable[i-tableMonth]
	}
	return makeMonth(i)
}

// monthOf returns the month that contains a day.
func monthOf(day uint32) uint32 {
	const begin, end = 719103, 769141 // 1969-01-01, 2106-01-01
	if day < begin+365 || day >= end-31 {
		y, m, _ := civil(day)
		return y*12 + m
	}
	// 2^17/4306 is the mean length of a month; minus three days, the guess is never too late.
	i := (day - begin - 3) * 4306 >> 17
	for monthTable[i+1].first <= day {
		i++
	}
	return tableMonth + i
}
