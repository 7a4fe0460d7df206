package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

func wireCalendar(c service.Calendar) client.Calendar {
	out := client.Calendar{
		Name: c.Name, Dates: list0(c.Spec.Dates), Yearly: list0(c.Spec.Yearly), Weekdays: list0(c.Spec.Weekdays),
		Windows: make([]client.CalendarWindow, len(c.Spec.Windows)), Timezone: optional(c.Spec.Zone), UpdatedAt: c.UpdatedAt,
	}
	for i, w := range c.Spec.Windows {
		out.Windows[i] = client.CalendarWindow{From: w.From, To: w.To}
	}
	return out
}

func (s settingsAPI) listCalendars(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, page, err := paged(r, func() ([]service.Calendar, error) { return s.service.Calendars(r.Context(), p) })
	if err != nil {
		return err
	}
	out := client.Calendars{Calendars: make([]client.Calendar, len(all)), Pagination: page}
	for i, c := range all {
		out.Calendars[i] = wireCalendar(c)
	}
	return reply(w, 200, out)
}

// calendarName returns the calendar that a path names; an invalid name is not found.
func calendarName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if !job.ValidKey(name) {
		return "", engine.ErrNotFound
	}
	return name, nil
}

func (s settingsAPI) getCalendar(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := calendarName(r)
	if err != nil {
		return err
	}
	c, err := s.service.Calendar(r.Context(), p, name)
	if err != nil {
		return err
	}
	return reply(w, 200, wireCalendar(c))
}

func (s settingsAPI) putCalendar(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.CalendarRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if req.Timezone != nil && *req.Timezone == "" {
		return job.Invalids{{Field: "timezone", Want: "a zone such as Europe/Berlin, or null for the schedule's"}}
	}
	spec := schedule.CalendarSpec{Dates: req.Dates, Yearly: req.Yearly, Weekdays: req.Weekdays, Zone: deref(req.Timezone, "")}
	for _, w := range req.Windows {
		spec.Windows = append(spec.Windows, schedule.WindowSpec{From: w.From, To: w.To})
	}
	c, err := s.service.PutCalendar(r.Context(), p, r.PathValue("name"), spec)
	if err != nil {
		return err
	}
	return reply(w, 200, wireCalendar(c))
}

func (s settingsAPI) deleteCalendar(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name, err := calendarName(r)
	if err != nil {
		return err
	}
	c, err := s.service.DeleteCalendar(r.Context(), p, name)
	if err != nil {
		return err
	}
	return reply(w, 200, wireCalendar(c))
}
