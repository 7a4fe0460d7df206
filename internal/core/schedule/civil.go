package schedule

// Days are counted from 0000-03-01, the start of a 400-year cycle whose leap
// day, if there is one, ends each year. So every day that a time.Time can
// usefully name is a small positive number, and unsigned division by constants does the rest.
const (
	daySeconds = 24 * 60 * 60
	epochDay   = 719468 // 1970-01-01
	epochShift = epochDay * daySeconds
	cycleDays  = 146097 // of 400 years
)

// weekday is 0 for Sunday.
func weekday(day uint32) uint32 { return (day + 3) % 7 }

// civil is the date of a day; month and date count from 0.
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

// firstOf is the first day of a month; the month counts from 0.
func firstOf(year, month uint32) uint32 {
	mp := month - 2
	if month < 2 {
		year, mp = year-1, month+10
	}
	era, yoe := year/400, year%400
	return era*cycleDays + yoe*365 + yoe/4 - yoe/100 + (153*mp+2)/5
}

// monthDays are the lengths of the months in years that are not leap years.
var monthDays = [12]uint32{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func daysIn(year, month uint32) uint32 {
	if month == 1 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return monthDays[month]
}
