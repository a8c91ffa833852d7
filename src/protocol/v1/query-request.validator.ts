// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","$comment":"The body of POST /v1/query. Bounds that are options of the server are checked after it.","type":"object","required":["sql"],"additionalProperties":false,"properties":{"sql":{"type":"string"},"session":{"type":"object","if":{"type":"object","required":["id"]},"then":{"additionalProperties":false,"properties":{"id":{"type":"string"}}},"else":{"additionalProperties":false,"properties":{"database":{"type":"string"},"max_idle_time":{"type":"integer","minimum":0,"maximum":2147483647}}}},"pagination":{"type":"object","additionalProperties":false,"properties":{"wait_time_secs":{"type":"integer","minimum":-2147483648,"maximum":2147483647},"max_rows_per_page":{"type":"integer","minimum":1,"maximum":2147483647},"max_rows_in_buffer":{"type":"integer","minimum":1,"maximum":2147483647}}},"timeout_secs":{"type":"integer","minimum":1,"maximum":2147483}}};

function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if((data.sql === undefined) && (missing0 = "sql")){
validate10.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
const _errs2 = errors;
for(const key0 in data){
if(!((((key0 === "sql") || (key0 === "session")) || (key0 === "pagination")) || (key0 === "timeout_secs"))){
validate10.errors = [{instancePath,schemaPath:"#/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key0},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs2 === errors){
if(data.sql !== undefined){
const _errs3 = errors;
if(typeof data.sql !== "string"){
validate10.errors = [{instancePath:instancePath+"/sql",schemaPath:"#/properties/sql/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid0 = _errs3 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.session !== undefined){
let data1 = data.session;
const _errs5 = errors;
if(!(data1 && typeof data1 == "object" && !Array.isArray(data1))){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
const _errs7 = errors;
let valid1 = true;
const _errs8 = errors;
if(errors === _errs8){
if(data1 && typeof data1 == "object" && !Array.isArray(data1)){
let missing1;
if((data1.id === undefined) && (missing1 = "id")){
const err0 = {};
if(vErrors === null){
vErrors = [err0];
}
else {
vErrors.push(err0);
}
errors++;
}
}
else {
const err1 = {};
if(vErrors === null){
vErrors = [err1];
}
else {
vErrors.push(err1);
}
errors++;
}
}
var _valid0 = _errs8 === errors;
errors = _errs7;
if(vErrors !== null){
if(_errs7){
vErrors.length = _errs7;
}
else {
vErrors = null;
}
}
let ifClause0;
if(_valid0){
const _errs10 = errors;
if(data1 && typeof data1 == "object" && !Array.isArray(data1)){
const _errs11 = errors;
for(const key1 in data1){
if(!(key1 === "id")){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/then/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key1},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs11 === errors){
if(data1.id !== undefined){
if(typeof data1.id !== "string"){
validate10.errors = [{instancePath:instancePath+"/session/id",schemaPath:"#/properties/session/then/properties/id/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
}
}
}
var _valid0 = _errs10 === errors;
valid1 = _valid0;
ifClause0 = "then";
}
else {
const _errs14 = errors;
if(data1 && typeof data1 == "object" && !Array.isArray(data1)){
const _errs15 = errors;
for(const key2 in data1){
if(!((key2 === "database") || (key2 === "max_idle_time"))){
validate10.errors = [{instancePath:instancePath+"/session",schemaPath:"#/properties/session/else/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key2},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs15 === errors){
if(data1.database !== undefined){
const _errs16 = errors;
if(typeof data1.database !== "string"){
validate10.errors = [{instancePath:instancePath+"/session/database",schemaPath:"#/properties/session/else/properties/database/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid3 = _errs16 === errors;
}
else {
var valid3 = true;
}
if(valid3){
if(data1.max_idle_time !== undefined){
let data4 = data1.max_idle_time;
const _errs18 = errors;
if(!(((typeof data4 == "number") && (!(data4 % 1) && !isNaN(data4))) && (isFinite(data4)))){
validate10.errors = [{instancePath:instancePath+"/session/max_idle_time",schemaPath:"#/properties/session/else/properties/max_idle_time/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs18){
if((typeof data4 == "number") && (isFinite(data4))){
if(data4 > 2147483647 || isNaN(data4)){
validate10.errors = [{instancePath:instancePath+"/session/max_idle_time",schemaPath:"#/properties/session/else/properties/max_idle_time/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data4 < 0 || isNaN(data4)){
validate10.errors = [{instancePath:instancePath+"/session/max_idle_time",schemaPath:"#/properties/session/else/properties/max_idle_time/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
}
}
var valid3 = _errs18 === errors;
}
else {
var valid3 = true;
}
}
}
}
var _valid0 = _errs14 === errors;
valid1 = _valid0;
ifClause0 = "else";
}
if(!valid1){
const err2 = {instancePath:instancePath+"/session",schemaPath:"#/properties/session/if",keyword:"if",params:{failingKeyword: ifClause0},message:"must match \""+ifClause0+"\" schema"};
if(vErrors === null){
vErrors = [err2];
}
else {
vErrors.push(err2);
}
errors++;
validate10.errors = vErrors;
return false;
}
var valid0 = _errs5 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.pagination !== undefined){
let data5 = data.pagination;
const _errs20 = errors;
if(errors === _errs20){
if(data5 && typeof data5 == "object" && !Array.isArray(data5)){
const _errs22 = errors;
for(const key3 in data5){
if(!(((key3 === "wait_time_secs") || (key3 === "max_rows_per_page")) || (key3 === "max_rows_in_buffer"))){
validate10.errors = [{instancePath:instancePath+"/pagination",schemaPath:"#/properties/pagination/additionalProperties",keyword:"additionalProperties",params:{additionalProperty: key3},message:"must NOT have additional properties"}];
return false;
break;
}
}
if(_errs22 === errors){
if(data5.wait_time_secs !== undefined){
let data6 = data5.wait_time_secs;
const _errs23 = errors;
if(!(((typeof data6 == "number") && (!(data6 % 1) && !isNaN(data6))) && (isFinite(data6)))){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs23){
if((typeof data6 == "number") && (isFinite(data6))){
if(data6 > 2147483647 || isNaN(data6)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data6 < -2147483648 || isNaN(data6)){
validate10.errors = [{instancePath:instancePath+"/pagination/wait_time_secs",schemaPath:"#/properties/pagination/properties/wait_time_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: -2147483648},message:"must be >= -2147483648"}];
return false;
}
}
}
}
var valid4 = _errs23 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data5.max_rows_per_page !== undefined){
let data7 = data5.max_rows_per_page;
const _errs25 = errors;
if(!(((typeof data7 == "number") && (!(data7 % 1) && !isNaN(data7))) && (isFinite(data7)))){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs25){
if((typeof data7 == "number") && (isFinite(data7))){
if(data7 > 2147483647 || isNaN(data7)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data7 < 1 || isNaN(data7)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_per_page",schemaPath:"#/properties/pagination/properties/max_rows_per_page/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid4 = _errs25 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data5.max_rows_in_buffer !== undefined){
let data8 = data5.max_rows_in_buffer;
const _errs27 = errors;
if(!(((typeof data8 == "number") && (!(data8 % 1) && !isNaN(data8))) && (isFinite(data8)))){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs27){
if((typeof data8 == "number") && (isFinite(data8))){
if(data8 > 2147483647 || isNaN(data8)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data8 < 1 || isNaN(data8)){
validate10.errors = [{instancePath:instancePath+"/pagination/max_rows_in_buffer",schemaPath:"#/properties/pagination/properties/max_rows_in_buffer/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid4 = _errs27 === errors;
}
else {
var valid4 = true;
}
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/pagination",schemaPath:"#/properties/pagination/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid0 = _errs20 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.timeout_secs !== undefined){
let data9 = data.timeout_secs;
const _errs29 = errors;
if(!(((typeof data9 == "number") && (!(data9 % 1) && !isNaN(data9))) && (isFinite(data9)))){
validate10.errors = [{instancePath:instancePath+"/timeout_secs",schemaPath:"#/properties/timeout_secs/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs29){
if((typeof data9 == "number") && (isFinite(data9))){
if(data9 > 2147483 || isNaN(data9)){
validate10.errors = [{instancePath:instancePath+"/timeout_secs",schemaPath:"#/properties/timeout_secs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483},message:"must be <= 2147483"}];
return false;
}
else {
if(data9 < 1 || isNaN(data9)){
validate10.errors = [{instancePath:instancePath+"/timeout_secs",schemaPath:"#/properties/timeout_secs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
}
var valid0 = _errs29 === errors;
}
else {
var valid0 = true;
}
}
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
